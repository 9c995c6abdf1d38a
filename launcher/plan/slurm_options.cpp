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
#include "job/schema/field_table.hpp"
#include "plan/elastic.hpp"
#include "plan/gpus.hpp"
#include "plan/make.hpp"
#include "record/job_files.hpp"
#include "slurm/file_pattern.hpp"
#include "spank/protocol.h"

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
constexpr std::array<std::string_view, 5> only_of_batch_scripts{"requeue", "no-requeue",
                                                                "open-mode", "array", "signal"};

// What an option means if its optional value is left out. All other options without a value are
// flags, which can be set with any text. Slurm has --requeue=expedite from 25.11 on, and refuses
// other texts from 26.05.1 on; before, it was a flag, which can be set with none.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> values_left_out{{
    {"exclusive", "exclusive"},
    {"nice", "100"},
    {"no-kill", "set"},
    {"oom-kill-step", "1"},
    {"propagate", "ALL"},
    {"requeue", ""},
    {"resv-ports", "0"},
}};

// Returns whether the two options say the same thing.
bool same_meaning(std::string_view one, std::string_view other) {
    if (one == other) return true;
    return std::any_of(alternatives.begin(), alternatives.end(), [&](const auto& group) {
        const auto has = [&](std::string_view name) {
            return std::find(group.begin(), group.end(), name) != group.end();
        };
        return has(one) && has(other);
    });
}

void remove_same_meaning(std::vector<SlurmOption>& options, std::string_view name) {
    std::erase_if(options,
                  [&](const SlurmOption& other) { return same_meaning(name, other.name); });
}

void put(std::vector<SlurmOption>& options, SlurmOption option) {
    std::erase_if(options, [&](const SlurmOption& other) { return other.name == option.name; });
    options.push_back(std::move(option));
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

// Returns whether each process has a fixed part of its node's CPUs, so that the processes of a node
// use all of its sockets however they are distributed.
bool fills_nodes(const Allocation& allocation) {
    return allocation.cpus_per_process > 0 && allocation.processes_per_node > 1;
}

std::string_view process_count_key(const Plan& plan) {
    return job::has_process_count(plan.tool_type) ? "processCount" : "nodeCount";
}

// Returns the user's option that replaces this one, or null if there is none.
const GivenOptions::value_type* given_instead(const SlurmOption& option,
                                              const GivenOptions& given) {
    if (const auto same = given.find(option.name); same != given.end()) return &*same;
    const auto other = std::find_if(given.begin(), given.end(), [&](const auto& entry) {
        return same_meaning(option.name, entry.first);
    });
    return other == given.end() ? nullptr : &*other;
}

void fill_in_value(SlurmOption& option) {
    if (!option.value.empty()) return;
    option.value = "set";
    for (const auto& [name, value] : values_left_out) {
        if (option.name == name) option.value = value;
    }
}

}  // namespace

void put_options(std::vector<SlurmOption>& options, std::vector<SlurmOption> added) {
    for (const SlurmOption& option : added)
        remove_same_meaning(options, option.name);
    for (SlurmOption& option : added)
        put(options, std::move(option));
}

void put_settings(std::vector<SlurmOption>& options, const job::SlurmSettings& settings,
                  Origin origin) {
    std::vector<SlurmOption> present;
    for (const job::Field& field : job::slurm_object.fields) {
        const std::optional<job::Value> value = field.access.load(&settings);
        if (!value) continue;
        const auto* const text = std::get_if<std::string>(&*value);
        if (text == nullptr && !std::get<bool>(*value)) {
            std::erase_if(options,
                          [&](const SlurmOption& other) { return other.name == field.name; });
            continue;
        }
        present.push_back({.name = std::string(field.name),
                           .value = text == nullptr ? std::string() : *text,
                           .origin = origin});
    }
    put_options(options, std::move(present));
}

std::vector<SlurmOption> allocation_options(const Plan& plan) {
    const Allocation& allocation = plan.allocation;
    std::vector<SlurmOption> options{
        {.name = "nodes",
         .value = std::to_string(allocation.all_nodes()),
         .origin = Origin::job_file,
         .must_agree = true,
         .key = allocation.spare_nodes > 0 ? "nodeCount and spareNodes" : "nodeCount"},
        {.name = "ntasks",
         // With fewer tasks than nodes, Slurm would give the job fewer nodes.
         .value = std::to_string(allocation.processes +
                                 allocation.spare_nodes * allocation.processes_per_node),
         .origin = Origin::job_file,
         .must_agree = true,
         .key = allocation.spare_nodes > 0 ? "the processes of its nodes and spareNodes"
                                           : process_count_key(plan)},
        {.name = "ntasks-per-node", .value = std::to_string(allocation.processes_per_node)},
    };
    if (allocation.cpus_per_process > 0)
        put(options, {.name = "cpus-per-task",
                      .value = std::to_string(allocation.cpus_per_process),
                      .origin = Origin::vm_size});
    // Rank 0 uses the first GPU of its node, rank 1 the second, and so on. GPUs are numbered socket
    // by socket, so the ranks fill one socket after the other as well. By default, Slurm would put
    // neighbours on different sockets.
    if (fills_nodes(allocation) && gpus_of_job(allocation))
        put(options, {.name = "distribution", .value = "block:block"});
    if (allocation.time_limit.count() > 0)
        put(options, {.name = "time",
                      .value = time_text(allocation.time_limit),
                      .origin = Origin::job_file,
                      .must_agree = true,
                      .key = "constraints.maxWallClockTime"});
    const bool own_priority = allocation.nice != normal_nice;
    put(options, {.name = "nice",
                  .value = std::to_string(allocation.nice),
                  .origin = own_priority ? Origin::job_file : Origin::launcher,
                  .must_agree = own_priority,
                  .key = "schedulingPriority"});
    // A pre-empted job goes back into the queue and continues when it is started again.
    put(options, {.name = "requeue", .value = {}});
    // The loss of a node then ends the step on that node, but not the job.
    const auto elastic = elastic_of(plan.environment, allocation.nodes);
    const bool is_elastic = elastic && *elastic;
    if (outlives_nodes(plan, is_elastic))
        put(options, {.name = "no-kill",
                      .value = {},
                      .origin = Origin::job_file,
                      .key = is_elastic ? elastic_nodes_variable : "spareNodes"});
    if (plan.checkpoint)
        put(options,
            {.name = "signal",
             .value = fmt::format("B:{}@{}", checkpoint_notice, plan.checkpoint->seconds_before),
             .origin = Origin::job_file,
             .must_agree = true,
             .key = "checkpoint"});
    put_options(options, allocation.options);
    return options;
}

std::optional<std::string> distribution_of_ranks(const Plan& plan) {
    for (const SlurmOption& option : allocation_options(plan)) {
        if (option.name == "distribution") return option.value;
    }
    return std::nullopt;
}

std::string argument_of(const SlurmOption& option) {
    if (option.value.empty()) return "--" + option.name;
    return fmt::format("--{}={}", option.name, option.value);
}

base::Result<std::vector<SlurmOption>> options_at_door(const Plan& plan, Door door,
                                                       const GivenOptions& given,
                                                       const std::string& file) {
    if (plan.sweep && door != Door::sbatch)
        return base::fail("the job file has a sweep, whose points are the tasks of an array job",
                          file, "submit it with `batchai job create` or sbatch",
                          base::ExitCode::usage);
    Plan asking = plan;
    // srun starts a rank on each node, and ends with them: nobody could start them on another one.
    if (door == Door::srun) asking.allocation.spare_nodes = 0;
    std::vector<SlurmOption> options = allocation_options(asking);
    if (door == Door::srun && !plan.mpi.empty())
        put(options, {.name = "mpi", .value = plan.mpi, .origin = Origin::site});
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

}  // namespace

std::string plan_path(const Plan& plan) {
    return record::JobFiles(plan.directories.plan_directory).plan().string();
}

std::string batch_script(const Plan& plan, const std::string& launcher,
                         const std::string& plan_digest, int attempts_before) {
    return fmt::format(
        "#!/bin/bash\n"
        "# Batch AI job {}\n"
        "# {}\n" BATCHAI_DECLARATION_LINE
        "{}\n"
        "exec {} run --plan {} --digest {}{}\n",
        comment_text(plan.identity.job), comment_text(plan.identity.path_segment()),
        comment_text(plan.declaration), base::single_quoted(launcher),
        base::single_quoted(plan_path(plan)), base::single_quoted(plan_digest),
        attempts_before == 0 ? std::string()
                             : fmt::format(" --attempts-before {}", attempts_before));
}

std::vector<std::string> sbatch_options(const Plan& plan) {
    const record::JobFiles files(plan.directories.job_directory);
    std::vector<SlurmOption> options = {
        {.name = "job-name", .value = plan.identity.job},
        {.name = "comment", .value = "batchai:" + plan.identity.path_segment()},
        // A requeued job appends to the log that it already has.
        {.name = "open-mode", .value = "append"},
        {.name = "output", .value = slurm::batch_output(files.slurm_log().string())},
        {.name = "chdir", .value = files.directory().string()},
        // The job gets the modules and virtual environments of the submitting shell.
        {.name = "export", .value = "ALL"},
    };
    put_options(options, allocation_options(plan));
    std::vector<std::string> arguments;
    arguments.reserve(options.size());
    for (const SlurmOption& option : options)
        arguments.push_back(argument_of(option));
    return arguments;
}

}  // namespace batchai::plan
