// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/text.hpp"
#include "slurm/client.hpp"
#include "slurm/parse.hpp"
#include "slurm/this_job.hpp"

// What Slurm says of jobs.
namespace batchai::slurm {

namespace {

using base::Result;
using namespace std::string_view_literals;

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

// What Slurm says of a job that it has forgotten.
constexpr std::array forgotten{"Invalid job id"sv};
constexpr std::array no_accounts{"accounting storage is disabled"sv};

}  // namespace

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

Result<std::set<std::string>> Client::queued_jobs_of_caller() const {
    const std::string queue = TRY(
        read({"squeue", "--noheader", "--all", fmt::format("--user={}", getuid()), "--format=%A"}));
    std::set<std::string> ids;
    for (const std::string_view line : base::split(queue, '\n')) {
        if (const auto id = base::trim(line); !id.empty()) ids.emplace(id);
    }
    return ids;
}

Result<std::string> Client::step_of_srun(const JobId& job, pid_t srun) const {
    std::array<char, HOST_NAME_MAX + 1> name{};
    gethostname(name.data(), name.size() - 1);
    const std::string steps = TRY(read({"scontrol", "--oneliner", "show", "step", job.text()}));
    if (const auto step = step_with_srun(steps, name.data(), srun)) return *step;
    return base::fail(fmt::format("Slurm knows no step of the srun with the process id {}", srun),
                      "scontrol");
}

Result<JobSettings> Client::settings(const JobId& job) const {
    return parse_job_settings(TRY(read({"scontrol", "--oneliner", "show", "job", job.text()})));
}

Result<std::string> Client::comment(const JobId& job) const {
    return parse_comment(TRY(read({"scontrol", "show", "job", job.text()})));
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

namespace {

// Returns a time as sacct reads it; reading_environment() makes it take UTC.
std::string time_for_sacct(base::Time time) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace

Result<std::vector<CommentedRun>> Client::commented_runs(std::string_view word, base::Time from,
                                                         base::Time to,
                                                         std::chrono::milliseconds longest) const {
    const std::string delimiter = fmt::format("|{}|", base::random_uuid());
    Client hurried = *this;
    hurried.deadline_ = std::min(deadline_, longest);
    const std::string accounts = TRY(
        hurried.read({"sacct", "--noheader", "--parsable2", "--allocations", "--duplicates",
                      "--allusers", fmt::format("--starttime={}", time_for_sacct(from)),
                      fmt::format("--endtime={}", time_for_sacct(to)), "--delimiter=" + delimiter,
                      fmt::format("--format={}", kJobCommentsFormat)},
                     no_accounts));
    return parse_job_comments(accounts, delimiter, word);
}

Result<Jobs> Client::jobs_of_caller(base::Time since) const {
    const std::string user = fmt::format("--user={}", getuid());
    // A day is subtracted because clocks may differ.
    const std::string start =
        fmt::format("--starttime={}", time_for_sacct(since - std::chrono::hours(24)));
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

Result<Jobs> Client::jobs(const std::vector<std::string>& ids, Jobs known,
                          std::optional<base::Error>* unaccounted) const {
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
    for (const std::string& some : TRY(in_portions(missing()))) {
        auto read = read_accounting({some}, found);
        if (read) continue;
        if (unaccounted == nullptr) return tl::unexpected(std::move(read).error());
        *unaccounted = std::move(read).error();
        break;
    }
    return found;
}

Result<JobDevices> Client::devices(const JobId& job) const {
    return parse_job_devices(TRY(read({"scontrol", "--details", "show", "job", job.text()})));
}

}  // namespace batchai::slurm
