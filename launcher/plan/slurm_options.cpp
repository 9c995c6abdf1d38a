// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/slurm_options.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/model.hpp"
#include "plan/elastic.hpp"
#include "plan/make.hpp"
#include "record/job_files.hpp"

namespace batchai::plan {

namespace {

// Groups of options that say the same thing in different ways. An option of the user's replaces
// every option of the same group.
constexpr std::array<std::array<std::string_view, 6>, 5> alternatives{{
    {"gres", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "tres-per-task"},
    {"exclusive", "oversubscribe"},
    {"requeue", "no-requeue"},
    {"mem", "mem-per-cpu", "mem-per-gpu"},
    {"cpus-per-task", "cpus-per-gpu"},
}};

// Options that say how a batch script is run. srun and salloc run none, and have no such options.
constexpr std::array<std::string_view, 3> only_of_batch_scripts{"requeue", "no-requeue",
                                                                "open-mode"};

// What an option means if its optional value is left out. All other options without a value are
// flags, which can be set with any text.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> values_left_out{{
    {"exclusive", "exclusive"},
    {"nice", "100"},
    {"no-kill", "set"},
    {"propagate", "ALL"},
}};

void put(std::vector<SlurmOption>& options, SlurmOption option) {
    const auto same = std::find_if(options.begin(), options.end(), [&](const SlurmOption& other) {
        return other.name == option.name;
    });
    if (same != options.end()) options.erase(same);
    options.push_back(std::move(option));
}

void put_text(std::vector<SlurmOption>& options, std::string name, const std::string& value) {
    if (!value.empty()) put(options, {.name = std::move(name), .value = value});
}

// Returns the limit in the form in which Slurm gives a command-line filter the user's: "HH:MM:SS",
// with "D-" before it from one day on (mins2time_str() in Slurm's src/common/parse_time.c).
std::string time_text(std::chrono::minutes limit) {
    const auto days = limit / std::chrono::days(1);
    const auto hours = limit % std::chrono::days(1) / std::chrono::hours(1);
    const auto minutes = (limit % std::chrono::hours(1)).count();
    const std::string clock = fmt::format("{:02}:{:02}:00", hours, minutes);
    return days == 0 ? clock : fmt::format("{}-{}", days, clock);
}

std::string_view process_count_key(const Plan& plan) {
    return job::has_process_count(plan.tool_type) ? "processCount" : "nodeCount";
}

// Returns the user's option that replaces this one, or null if there is none.
const GivenOptions::value_type* given_instead(const SlurmOption& option,
                                              const GivenOptions& given) {
    if (const auto same = given.find(option.name); same != given.end()) return &*same;
    for (const auto& group : alternatives) {
        if (std::find(group.begin(), group.end(), option.name) == group.end()) continue;
        for (const std::string_view other : group) {
            if (other.empty()) continue;
            if (const auto found = given.find(other); found != given.end()) return &*found;
        }
    }
    return nullptr;
}

void fill_in_value(SlurmOption& option) {
    if (!option.value.empty()) return;
    option.value = "set";
    for (const auto& [name, value] : values_left_out) {
        if (option.name == name) option.value = value;
    }
}

}  // namespace

std::vector<SlurmOption> allocation_options(const Plan& plan) {
    const Allocation& allocation = plan.allocation;
    std::vector<SlurmOption> options{
        {.name = "nodes",
         .value = std::to_string(allocation.nodes),
         .must_agree = true,
         .key = "nodeCount"},
        {.name = "ntasks",
         .value = std::to_string(allocation.processes),
         .must_agree = true,
         .key = process_count_key(plan)},
        {.name = "ntasks-per-node", .value = std::to_string(allocation.processes_per_node)},
    };
    if (allocation.cpus_per_process > 0)
        put_text(options, "cpus-per-task", std::to_string(allocation.cpus_per_process));
    if (allocation.exclusive) put(options, {.name = "exclusive", .value = {}});
    put_text(options, "partition", allocation.partition);
    put_text(options, "constraint", allocation.constraint);
    put_text(options, "gres", allocation.gres);
    put_text(options, "account", allocation.account);
    put_text(options, "qos", allocation.qos);
    if (allocation.time_limit.count() > 0)
        put(options, {.name = "time",
                      .value = time_text(allocation.time_limit),
                      .must_agree = true,
                      .key = "constraints.maxWallClockTime"});
    put(options, {.name = "nice",
                  .value = std::to_string(allocation.nice),
                  .must_agree = allocation.nice != normal_nice,
                  .key = "schedulingPriority"});
    // A pre-empted job goes back into the queue and continues when it is started again.
    put(options, {.name = "requeue", .value = {}});
    // The loss of a node then ends the step on that node, but not the job.
    const auto elastic = elastic_of(plan.environment, allocation.nodes);
    if (elastic && *elastic)
        put(options, {.name = "no-kill", .value = {}, .key = elastic_nodes_variable});
    for (const Variable& option : allocation.extra_options)
        put(options, {.name = option.name, .value = option.value});
    return options;
}

std::string argument_of(const SlurmOption& option) {
    if (option.value.empty()) return "--" + option.name;
    return fmt::format("--{}={}", option.name, option.value);
}

base::Result<std::vector<SlurmOption>> options_at_door(const Plan& plan, Door door,
                                                       const GivenOptions& given,
                                                       const std::string& file) {
    std::vector<SlurmOption> options = allocation_options(plan);
    if (door == Door::srun) put_text(options, "mpi", plan.mpi);
    std::vector<SlurmOption> out;
    for (SlurmOption& option : options) {
        const bool of_batch_script =
            std::find(only_of_batch_scripts.begin(), only_of_batch_scripts.end(), option.name) !=
            only_of_batch_scripts.end();
        if (of_batch_script && door != Door::sbatch) continue;
        if (const auto* const users = given_instead(option, given)) {
            if (option.must_agree && users->second != option.value)
                return base::fail(
                    fmt::format("--{}={} contradicts {}, which asks for {} ({})", users->first,
                                users->second, file, option.value, option.key),
                    {}, fmt::format("omit --{}, or use the same value in both", users->first),
                    base::ExitCode::usage);
            continue;
        }
        fill_in_value(option);
        out.push_back(std::move(option));
    }
    return out;
}

namespace {

// Replaces control characters, so that the text can be in a comment line of a script.
std::string comment_text(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte < 0x20 || byte == 0x7F) c = '?';
    }
    return out;
}

// Escapes "%" in a path, so that sbatch replaces nothing in it.
std::string literal_pattern(std::string_view path) {
    std::string out;
    for (const char c : path) {
        out += c;
        if (c == '%') out += c;
    }
    return out;
}

}  // namespace

std::string plan_path(const Plan& plan) {
    return record::JobFiles(plan.directories.plan_directory).plan().string();
}

std::string batch_script(const Plan& plan, const std::string& launcher,
                         const std::string& plan_digest) {
    return fmt::format(
        "#!/bin/bash\n"
        "# Batch AI job {}\n"
        "# {}\n"
        "exec {} run --plan {} --digest {}\n",
        comment_text(plan.identity.job), comment_text(plan.identity.path_segment()),
        base::single_quoted(launcher), base::single_quoted(plan_path(plan)),
        base::single_quoted(plan_digest));
}

std::vector<std::string> sbatch_options(const Plan& plan) {
    const record::JobFiles files(plan.directories.job_directory);
    std::vector<std::string> options = {
        "--job-name=" + plan.identity.job,
        "--comment=batchai:" + plan.identity.path_segment(),
        // A requeued job appends to the log that it already has.
        "--open-mode=append",
        "--output=" + literal_pattern(files.slurm_log().string()),
        "--chdir=" + files.directory().string(),
        // The job gets the modules and virtual environments of the submitting shell.
        "--export=ALL",
    };
    for (const SlurmOption& option : allocation_options(plan))
        options.push_back(argument_of(option));
    return options;
}

}  // namespace batchai::plan
