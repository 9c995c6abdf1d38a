// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/client.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/text.hpp"
#include "slurm/array_indexes.hpp"
#include "slurm/file_pattern.hpp"
#include "slurm/own_environment.hpp"
#include "slurm/parse.hpp"
#include "slurm/this_job.hpp"

namespace batchai::slurm {

namespace {

struct Known {
    std::string_view text;
    std::string_view hint;
};

// Parts of Slurm's messages in lower case. The first match counts.
constexpr std::array<Known, 15> known_faults{{
    {"invalid partition",
     "see the partitions with \"sinfo -s\"; the cluster's vmSize chooses one "
     "in site.lua"},
    {"requested node configuration is not available",
     "no node fits: compare the node count, cpus, gres and features with \"sinfo -Nl\"; Slurm "
     "22.05.5 to 22.05.8 also refuse some valid requests with this message (SchedMD bug 15857)"},
    {"node count specification invalid",
     "the partition has fewer nodes, or its limit is lower: see \"scontrol show partition\""},
    {"more processors requested than permitted",
     "ask for fewer processes or nodes: see \"scontrol show partition\""},
    {"violates accounting/qos policy",
     "a limit of the account or QOS refuses it: see \"sacctmgr show assoc user=$USER\" and "
     "\"sacctmgr show qos\""},
    {"invalid qos", "see the QOS you may use with \"sacctmgr show assoc user=$USER\""},
    {"invalid account", "see your accounts with \"sacctmgr show assoc user=$USER\""},
    {"invalid generic resource", "no node has this gres: see \"sinfo -o '%N %G'\""},
    {"invalid feature", "no node has this feature: see \"sinfo -o '%N %f'\""},
    {"invalid node name", "see the nodes with \"sinfo -N\""},
    {"time limit", "the partition's limit is lower: see \"scontrol show partition\""},
    {"unable to contact slurm controller",
     "the controller does not answer from this host: check it with \"scontrol ping\""},
    {"requested operation is presently disabled",
     "the job may not be queued again: it was submitted with --no-requeue, or the site has "
     "JobRequeue=0"},
    {"unable to process configuration file",
     "Slurm is not configured on this host: check /etc/slurm/slurm.conf or SLURM_CONF"},
    {"protocol authentication error",
     "munge does not work between this host and the controller: ask the administrator"},
}};

// Shortens "sbatch: error: Batch job submission failed: X" to "X".
std::string_view cleaned(std::string_view line, std::string_view command) {
    const std::array<std::string, 5> prefixes{
        fmt::format("{}:", command),
        "error:", "fatal:", "allocation failure:", "Batch job submission failed:"};
    bool again = true;
    while (again) {
        again = false;
        line = base::trim(line);
        for (const std::string& prefix : prefixes) {
            if (!line.starts_with(prefix)) continue;
            line.remove_prefix(prefix.size());
            again = true;
        }
    }
    while (line.ends_with('.'))
        line.remove_suffix(1);
    return line;
}

// Returns the lines that a command has printed, without repetitions.
std::vector<std::string> messages(std::string_view command, std::string_view standard_error) {
    std::vector<std::string> said;
    for (const std::string_view line : base::split(standard_error, '\n')) {
        const std::string text(cleaned(line, command));
        if (text.empty() || (!said.empty() && said.back() == text)) continue;
        said.push_back(text);
    }
    return said;
}

}  // namespace

base::Error refusal(std::string_view command, std::string_view standard_error) {
    const std::vector<std::string> said = messages(command, standard_error);
    base::Error error{said.empty() ? "Slurm refused without giving a reason"
                                   : fmt::format("{}", fmt::join(said, "; ")),
                      std::string(command),
                      {},
                      base::ExitCode::refused};
    const std::string lowered = base::lower(error.what);
    for (const Known& entry : known_faults) {
        if (lowered.find(entry.text) == std::string::npos) continue;
        error.hint = std::string(entry.hint);
        break;
    }
    return error;
}

bool gave_no_answer(const base::Error& error) {
    return error.exit_code == base::ExitCode::timed_out ||
           error.what.find("timed out") != std::string::npos ||
           error.what.find("Zero Bytes were transmitted or received") != std::string::npos;
}

namespace {

using base::Result;
using namespace std::string_view_literals;

// With this environment Slurm's commands print times as UTC in one format, and messages in English.
base::Environment reading_environment() {
    base::Environment environment = scrubbed_environment();
    const auto replaced = [](const std::string& entry) {
        return entry.starts_with("TZ=") || entry.starts_with("LC_") || entry.starts_with("LANG");
    };
    environment.erase(std::remove_if(environment.begin(), environment.end(), replaced),
                      environment.end());
    environment.insert(environment.end(), {"TZ=UTC0", "LC_ALL=C", "SLURM_TIME_FORMAT=standard",
                                           // Lists of array tasks are not cut.
                                           "SLURM_BITSTR_LEN=0"});
    return environment;
}

// After this time without an answer, the controller is asked whether it answers at all.
constexpr std::chrono::milliseconds patience{1000};
// Less than three seconds, together with `patience` and the time to start the programs.
constexpr std::chrono::milliseconds ping_deadline{1200};

// The time that sacct has to list all jobs of the caller.
constexpr std::chrono::milliseconds longest_accounting{5000};
// The longest list of ids in one argument. Linux accepts 128 KiB.
constexpr std::size_t longest_list = 100'000;

// Returns options of squeue and sacct that name the jobs.
Result<std::vector<std::string>> in_portions(const std::vector<std::string>& ids) {
    std::vector<std::string> portions;
    for (const std::string& id : ids) {
        const JobId job = TRY(JobId::parse(id));
        if (portions.empty() || portions.back().size() + id.size() + 1 > longest_list)
            portions.push_back("--jobs=" + job.text());
        else
            portions.back() += ',' + job.text();
    }
    return portions;
}

bool says(const base::Completed& completed, std::string_view text) {
    return completed.standard_error.find(text) != std::string::npos;
}

tl::unexpected<base::Error> refused(std::string_view command, const base::Completed& completed) {
    return tl::unexpected(refusal(command, completed.standard_error));
}

// What Slurm says of a job that has ended since the caller looked, or that it has forgotten.
constexpr std::array forgotten{"Invalid job id"sv};
constexpr std::array ended{"Invalid job id"sv, "already completing or completed"sv};
constexpr std::array not_waiting{"Invalid job id"sv, "already completing"sv, "already finished"sv,
                                 "no longer pending"sv};
// A node may have changed its state since the caller looked.
constexpr std::array other_node_state{"Invalid node state specified"sv};
constexpr std::array no_accounts{"accounting storage is disabled"sv};

tl::unexpected<base::Error> controller_is_silent() {
    return base::fail("Slurm's controller does not answer", "slurmctld",
                      "see \"scontrol ping\", and try again when it says UP, or ask the "
                      "administrator");
}

}  // namespace

base::Environment scrubbed_environment() {
    base::Environment environment = without_variables_of_a_job(
        base::environment_without({"SLURM_", "_SLURM_", "SPANK_", "SBATCH_", "SQUEUE_", "SINFO_",
                                   "SACCT_", "SALLOC_", "SRUN_", "SCANCEL_", "SCONTROL_"}));
    for (const char* name : {"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"}) {
        if (const char* value = std::getenv(name); value != nullptr)
            environment.push_back(fmt::format("{}={}", name, value));
    }
    return environment;
}

Result<base::Completed> Client::ask(const base::Arguments& arguments) const {
    base::RunOptions options;
    options.environment = reading_environment();
    options.deadline = deadline_;
    options.tick_period = patience;
    if (give_up_early_) {
        options.tick = [this, asked = false]() mutable -> Result<void> {
            if (std::exchange(asked, true)) return {};
            return ping();
        };
    }
    auto completed = TRY(base::run(arguments, options));
    if (completed.exit_code != 0 && says(completed, "Unable to contact slurm controller"))
        return controller_is_silent();
    return completed;
}

Result<std::string> Client::read(const base::Arguments& arguments, Messages harmless) const {
    auto completed = TRY(ask(arguments));
    const bool fine = completed.exit_code == 0 ||
                      std::any_of(harmless.begin(), harmless.end(), [&](std::string_view message) {
                          return says(completed, message);
                      });
    if (!fine) return refused(arguments.front(), completed);
    return std::move(completed.standard_output);
}

Result<void> Client::tell(const base::Arguments& arguments, Messages harmless) const {
    TRY(read(arguments, harmless));
    return {};
}

Result<void> Client::ping() const {
    base::RunOptions options;
    options.environment = reading_environment();
    options.deadline = ping_deadline;
    // scontrol prints a line such as "Slurmctld(primary) at host is UP" for each controller.
    const auto completed = base::run({"scontrol", "ping"}, options);
    const bool silent = completed ? completed->standard_output.find(" is UP") == std::string::npos
                                  : completed.error().exit_code == base::ExitCode::timed_out;
    if (silent) return controller_is_silent();
    TRY(completed);
    return {};
}

namespace {

// Refuses what Slurm would take for another path, so that it could not start the job.
Result<void> check_output(const Client& client, const base::Arguments& options) {
    const auto output = std::find_if(options.begin(), options.end(), [](const std::string& option) {
        return option.starts_with("--output=");
    });
    if (output == options.end() || output->find('\\') == std::string::npos) return {};
    const std::string release = TRY(client.version());
    if (can_name_backslash(release)) return {};
    return base::fail(
        fmt::format("Slurm {} cannot write the job's log to a path that has a \"\\\"", release),
        output->substr(output->find('=') + 1),
        "set BATCHAI_HOME to a path without one, such as that of a symbolic link to the directory",
        base::ExitCode::usage);
}

}  // namespace

Result<JobId> Client::submit(const base::Arguments& options, const std::string& script,
                             const base::Environment& environment) const {
    TRY(check_output(*this, options));
    base::Arguments arguments{"sbatch", "--parsable"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.push_back(script);
    base::RunOptions run_options;
    run_options.environment = environment;
    run_options.deadline = deadline_;
    // Nobody would wait for the job of an sbatch that lives on.
    run_options.ends_with_us = true;
    const auto completed = TRY(base::run(arguments, run_options));
    // Slurm may have taken the job before sbatch was killed.
    if (const auto signal = base::signal_in(completed.exit_code))
        return base::fail(fmt::format("was killed by signal {}", *signal), "sbatch");
    if (completed.exit_code != 0) return refused("sbatch", completed);
    return parse_submitted(completed.standard_output);
}

Result<std::string> Client::test_submission(const base::Arguments& options,
                                            const std::string& script_text,
                                            const base::Environment& environment) const {
    base::Arguments arguments{"sbatch", "--test-only"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    base::RunOptions run_options;
    run_options.environment = environment;
    run_options.standard_input = script_text;
    run_options.deadline = deadline_;
    const auto completed = TRY(base::run(arguments, run_options));
    if (completed.exit_code != 0) return refused("sbatch", completed);
    return fmt::format("{}", fmt::join(messages("sbatch", completed.standard_error), "; "));
}

Result<void> Client::cancel(const JobId& job) const {
    return tell({"scancel", job.text()}, ended);
}

Result<void> Client::cancel_queued(const JobId& job) const {
    return tell({"scancel", "--state=PENDING", job.text()}, ended);
}

Result<void> Client::cancel_tasks(const JobId& array, const std::vector<int>& tasks,
                                  bool only_queued) const {
    if (tasks.empty()) return {};
    base::Arguments arguments{"scancel"};
    if (only_queued) arguments.emplace_back("--state=PENDING");
    arguments.push_back(fmt::format("{}_[{}]", array.without_task(), array_indexes(tasks)));
    return tell(arguments, ended);
}

Result<std::vector<ScriptJob>> Client::jobs_of_script(const std::string& script) const {
    // Those of hidden partitions count, and those that only clean up after themselves do not.
    const std::string queue =
        TRY(read({"squeue", "--noheader", "--all", "--states=PENDING,CONFIGURING,RUNNING,SUSPENDED",
                  fmt::format("--user={}", getuid()), fmt::format("--format={}", kScriptFormat)}));
    return parse_script_jobs(queue, script);
}

Result<Jobs> Client::accounted_jobs(const std::vector<std::string>& ids) const {
    Jobs found;
    for (const std::string& some : TRY(in_portions(ids)))
        TRY(read_accounting({some}, found));
    return found;
}

Result<bool> Client::is_queued(const JobId& job) const {
    const std::string queue =
        TRY(read({"squeue", "--noheader", "--jobs=" + job.text(), "--format=%T"}, forgotten));
    return !base::trim(queue).empty();
}

Result<void> Client::requeue(const JobId& job) const {
    return tell({"scontrol", "requeue", job.text()});
}

Result<std::string> Client::step_of_srun(const JobId& job, pid_t srun) const {
    std::array<char, HOST_NAME_MAX + 1> name{};
    gethostname(name.data(), name.size() - 1);
    const std::string steps = TRY(read({"scontrol", "--oneliner", "show", "step", job.text()}));
    if (const auto step = step_with_srun(steps, name.data(), srun)) return *step;
    return base::fail(fmt::format("Slurm knows no step of the srun with the process id {}", srun),
                      "scontrol");
}

Result<void> Client::signal_step(const std::string& step_id, int signal) const {
    return tell({"scancel", fmt::format("--signal={}", signal), step_id});
}

Result<void> Client::change(const JobId& job, const std::string& setting, Messages harmless) const {
    return tell({"scontrol", "update", "JobId=" + job.text(), setting}, harmless);
}

Result<void> Client::keep_nodes(const JobId& job, const std::vector<std::string>& nodes) const {
    return change(job, fmt::format("NodeList={}", fmt::join(nodes, ",")));
}

Result<JobSettings> Client::settings(const JobId& job) const {
    return parse_job_settings(TRY(read({"scontrol", "--oneliner", "show", "job", job.text()})));
}

Result<std::string> Client::comment(const JobId& job) const {
    return parse_comment(TRY(read({"scontrol", "show", "job", job.text()})));
}

Result<void> Client::set_comment(const JobId& job, const std::string& comment) const {
    return change(job, "Comment=" + comment);
}

Result<std::string> Client::queue_of_job(const JobId& job) const {
    return read({"squeue", "--noheader", "--all", "--states=all", "--jobs=" + job.text(),
                 fmt::format("--Format={}", kThisJobFormat)},
                forgotten);
}

Result<std::string> Client::all_about(const JobId& job) const {
    std::string out;
    for (const base::Arguments& arguments :
         {base::Arguments{"scontrol", "--details", "show", "job", job.text()},
          base::Arguments{"scontrol", "--details", "show", "step", job.text()},
          base::Arguments{"sacct", "--duplicates", "--long", "--parsable2",
                          "--jobs=" + job.text()}}) {
        const auto completed = TRY(ask(arguments));
        out += fmt::format("$ {}\n{}{}\n", fmt::join(arguments, " "), completed.standard_output,
                           completed.standard_error);
    }
    return out;
}

Result<void> Client::exclude_nodes(const JobId& job, const std::string& hostlist) const {
    return change(job, "ExcNodeList=" + hostlist);
}

Result<void> Client::set_power(const std::vector<std::string>& nodes, NodePower power) const {
    constexpr std::array<std::string_view, 3> states{"POWER_UP", "POWER_DOWN_ASAP", "RESUME"};
    if (nodes.empty()) return {};
    return tell({"scontrol", "update", fmt::format("NodeName={}", fmt::join(nodes, ",")),
                 fmt::format("State={}", states.at(static_cast<std::size_t>(power)))},
                other_node_state);
}

Result<std::string> Client::admin_level(const std::string& user) const {
    const std::string level = TRY(read({"sacctmgr", "--noheader", "--parsable2", "show", "user",
                                        fmt::format("name={}", user), "format=adminlevel"}));
    return std::string(base::trim(level));
}

Result<bool> Client::is_administrator(const std::string& user) const {
    return TRY(admin_level(user)) == "Administrator";
}

bool Client::may_choose_priorities() const {
    if (getuid() == 0) return true;
    const auto* const entry = getpwuid(getuid());
    const auto level = entry == nullptr ? std::string() : admin_level(entry->pw_name).value_or("");
    return level == "Administrator" || level == "Operator";
}

Result<void> Client::hold(const JobId& job) const {
    return tell({"scontrol", "uhold", job.text()}, not_waiting);
}

Result<void> Client::release(const JobId& job) const {
    return tell({"scontrol", "release", job.text()}, not_waiting);
}

Result<void> Client::set_priority(const JobId& job, const std::string& priority) const {
    return change(job, "Priority=" + priority, not_waiting);
}

Result<void> Client::read_queue(const std::string& filter, Jobs& into) const {
    // squeue says that an id is invalid only if it is asked for one that it has forgotten. If it is
    // asked for several ids, it leaves out the forgotten ones.
    const std::string queue = TRY(read(
        {"squeue", "--noheader", "--states=all", filter, fmt::format("--Format={}", kQueueFormat)},
        forgotten));
    auto parsed = TRY(parse_queue(queue));
    into.merge(parsed);
    return {};
}

Result<void> Client::read_accounting(const base::Arguments& filter, Jobs& into) const {
    base::Arguments arguments{"sacct",        "--noheader",
                              "--parsable2",  "--allocations",
                              "--duplicates", fmt::format("--format={}", kAccountingFormat)};
    arguments.insert(arguments.end(), filter.begin(), filter.end());
    // If the site keeps no accounts, nobody knows these jobs any more.
    const std::string accounts = TRY(read(arguments, no_accounts));
    auto parsed = TRY(parse_accounting(accounts));
    into.merge(parsed);
    return {};
}

Result<std::optional<JobAccounts>> Client::accounts(const JobId& job) const {
    const std::string accounts =
        TRY(read({"sacct", "--noheader", "--parsable2", "--jobs=" + job.text(),
                  fmt::format("--format={}", kJobAccountsFormat)},
                 no_accounts));
    return parse_job_accounts(accounts);
}

Result<Jobs> Client::jobs_of_caller(base::Time since) const {
    const std::string user = fmt::format("--user={}", getuid());
    // reading_environment() makes sacct take UTC. A day is subtracted because clocks may differ.
    const std::string start = fmt::format(
        "--starttime={:%Y-%m-%dT%H:%M:%S}",
        fmt::gmtime(std::chrono::system_clock::to_time_t(since - std::chrono::hours(24))));
    Jobs accounts;
    Client hurried = *this;
    hurried.deadline_ = std::min<std::chrono::milliseconds>(deadline_, longest_accounting);
    auto accounting = std::async(std::launch::async, [&] {
        return hurried.read_accounting({user, start}, accounts);
    });
    Jobs found;
    const auto queue = read_queue(user, found);
    // A user may have so many other jobs that this answer is too long or too late. jobs() then asks
    // by id, and reports the error if that fails too.
    static_cast<void>(accounting.get());
    TRY(queue);
    found.merge(accounts);
    return found;
}

Result<Jobs> Client::jobs(const std::vector<std::string>& ids, Jobs known) const {
    Jobs found = std::move(known);
    const auto missing = [&] {
        std::vector<std::string> out;
        std::copy_if(ids.begin(), ids.end(), std::back_inserter(out),
                     [&](const std::string& id) { return !found.contains(id); });
        return out;
    };
    // squeue compares each of its jobs with each id, so if many jobs are missing, the user's whole
    // queue is read.
    if (missing().size() > many_jobs) TRY(read_queue(fmt::format("--user={}", getuid()), found));
    for (const std::string& some : TRY(in_portions(missing())))
        TRY(read_queue(some, found));
    for (const std::string& some : TRY(in_portions(missing())))
        TRY(read_accounting({some}, found));
    return found;
}

Result<JobDevices> Client::devices(const JobId& job) const {
    return parse_job_devices(TRY(read({"scontrol", "--details", "show", "job", job.text()})));
}

Result<std::vector<NodeStatus>> Client::nodes(const NodeFilter& filter) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node",
                              fmt::format("--Format={}", kNodeFormat)};
    if (filter.hidden) arguments.emplace_back("--all");
    if (!filter.names.empty())
        arguments.push_back(fmt::format("--nodes={}", fmt::join(filter.names, ",")));
    if (!filter.partition.empty())
        arguments.push_back(fmt::format("--partition={}", filter.partition));
    auto nodes = parse_nodes(TRY(read(arguments)));
    if (!nodes || filter.constraint.empty()) return nodes;
    if (filter.constraint.find_first_of("|[](),*") != std::string::npos)
        return base::fail(
            fmt::format("the constraint \"{}\" is not supported for listing nodes yet",
                        filter.constraint),
            "site.lua", "use features joined by \"&\"");
    const auto wanted = base::split(filter.constraint, '&');
    const auto lacks = [&](const NodeStatus& node) {
        return std::any_of(wanted.begin(), wanted.end(), [&](std::string_view feature) {
            return std::find(node.features.begin(), node.features.end(), base::trim(feature)) ==
                   node.features.end();
        });
    };
    nodes->erase(std::remove_if(nodes->begin(), nodes->end(), lacks), nodes->end());
    return nodes;
}

Result<std::string> Client::core_counts(const std::string& partition) const {
    base::Arguments arguments{"sinfo", "--noheader", "--Node", "--format=%N|%f|%C"};
    if (!partition.empty()) arguments.push_back(fmt::format("--partition={}", partition));
    return read(arguments);
}

Result<std::string> Client::version() const {
    const auto completed = TRY(ask({"sinfo", "--version"}));
    const std::string_view text = base::trim(completed.standard_output);
    const std::size_t blank = text.rfind(' ');
    if (completed.exit_code != 0 || blank == std::string_view::npos)
        return refused("sinfo", completed);
    return std::string(text.substr(blank + 1));
}

Result<Configuration> Client::configuration() const {
    return parse_configuration(TRY(read({"scontrol", "show", "config"})));
}

Result<std::vector<std::string>> Client::mpi_types() const {
    const auto completed = TRY(ask({"srun", "--mpi=list"}));
    // Slurm 22.05 prints the list on standard error, newer ones on standard output.
    return parse_mpi_types(completed.standard_output + completed.standard_error);
}

Result<std::string> Client::help_of_srun() const {
    return read({"srun", "--help"});
}

namespace {

base::Arguments srun_on_nodes(const NodeCommand& command) {
    base::Arguments arguments{
        "srun", "--quiet",
        // One Ctrl-C ends the tasks, and with them the allocation.
        "--disable-status", "--job-name=batchai-check",
        fmt::format("--nodes={}", command.nodes.size()),
        fmt::format("--ntasks={}", command.nodes.size()), "--ntasks-per-node=1",
        // Without it, Slurm may ask for the whole memory of a node.
        "--mem=64M", fmt::format("--nodelist={}", fmt::join(command.nodes, ",")),
        fmt::format("--immediate={}", command.longest_wait.count()),
        fmt::format("--time={}", command.time_limit.count()), "--mpi=none", "--kill-on-bad-exit=0"};
    for (std::string& option : output_options(command.output, command.errors))
        arguments.push_back(std::move(option));
    const auto add = [&](std::string_view name, const std::string& value) {
        if (!value.empty()) arguments.push_back(fmt::format("--{}={}", name, value));
    };
    add("partition", command.partition);
    add("account", command.account);
    add("qos", command.qos);
    arguments.insert(arguments.end(), command.arguments.begin(), command.arguments.end());
    return arguments;
}

}  // namespace

Result<base::Completed> Client::run_on_nodes(const NodeCommand& command,
                                             const base::HeldSignals& held) const {
    constexpr std::chrono::milliseconds look{200};
    constexpr std::size_t most_said = 64UL << 10U;
    // A file has room for whatever srun says, so that nobody needs to read while it runs.
    const base::FileDescriptor said(memfd_create("srun", MFD_CLOEXEC));
    if (!said.valid()) return base::system_error("make", "memfd");
    auto srun = TRY(base::Child::start({.arguments = srun_on_nodes(command),
                                        .environment = scrubbed_environment(),
                                        .descriptors = {{-1, 0}, {-1, 1}, {said.get(), 2}},
                                        .own_group = true}));
    // Slurm ends the allocation at its limit, and may take KillWait and more to do so.
    const auto deadline = std::chrono::steady_clock::now() + command.longest_wait +
                          command.time_limit + std::chrono::minutes(1);
    std::optional<int> status;
    bool stopped = false;
    while (!status && std::chrono::steady_clock::now() < deadline) {
        status = srun.ended_by(std::chrono::steady_clock::now() + look);
        if (status || stopped || !held.next()) continue;
        stopped = true;
        srun.signal(SIGTERM);
    }
    if (stopped) return base::fail("interrupted", "srun");
    if (!status) return base::fail("does not end", "srun", {}, base::ExitCode::timed_out);
    return base::Completed{.exit_code = base::shell_exit_code(*status),
                           .standard_output = {},
                           .standard_error = base::end_of_file(said, 0, most_said)};
}

}  // namespace batchai::slurm
