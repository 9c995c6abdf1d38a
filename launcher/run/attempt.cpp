// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/attempt.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "run/first_failure.hpp"
#include "run/hosts.hpp"
#include "run/line_merger.hpp"
#include "run/paths.hpp"
#include "run/srun_arguments.hpp"
#include "spank/protocol.h"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds wire_up_deadline{60};
constexpr int wire_up_attempts = 3;
constexpr int wire_up_unanswered = 75;  // exit code of mpi_bridge_wireup
constexpr std::string_view job_failed = "Job failed with non-zero exit code";
constexpr std::string_view preparation_failed =
    "Job preparation task failed with non-zero exit code";

std::string log_directory(const plan::Plan& plan) {
    const auto& directories = plan.directories;
    return directories.stdouterr_host.empty() ? directories.stdouterr : directories.stdouterr_host;
}

std::string traces_directory(const plan::Plan& plan) {
    return plan.directories.job_directory + "/node";
}

// The end of the task that is to blame: a signal comes before an exit code, a cause before a
// report of somebody else's death, the earlier before the later. A victim is to blame only if it
// ended the step itself; how it was killed then says nothing.
std::optional<std::pair<TaskEnd, std::string>> culprit(
    const std::vector<TaskEnd>& ends, const std::vector<std::string>& error_files) {
    std::optional<std::pair<TaskEnd, std::string>> best;
    int best_weight = 0;
    for (TaskEnd end : ends) {
        std::string said;
        if (end.task >= 0 && static_cast<std::size_t>(end.task) < error_files.size())
            said = base::read_file(error_files[static_cast<std::size_t>(end.task)]).value_or("");
        if (end.victim) {
            if (!aborted_the_step(said)) continue;
            end.signal.reset();
            end.exit_code.reset();
        }
        std::string line = first_error_line(said);
        const int weight = end.signal ? 3 : (blames_a_peer(line) ? 1 : 2);
        if (weight <= best_weight) continue;
        best_weight = weight;
        best = {end, std::move(line)};
    }
    return best;
}

// Slurm 22.05's PMIx server loses a connection now and then (slurmstepd has the user's effective id
// while it starts the tasks, and refuses other nodes meanwhile). Only that is tried again.
bool worth_another_try(const base::Result<StepResult>& result) {
    if (!result || result->exit_code == 0 || result->stopped_by) return false;
    const auto ends = bad_ends(result->messages);
    return std::any_of(ends.begin(), ends.end(),
                       [](const TaskEnd& end) { return end.exit_code == wire_up_unanswered; });
}

// What mpi_bridge_wireup itself said; srun's words around it only follow from that.
std::string wire_up_complaint(const std::string& said) {
    const std::size_t at = said.find("mpi_bridge_wireup: ");
    if (at == std::string::npos) return first_error_line(said);
    return said.substr(at, said.find('\n', at) - at);
}

int exit_code_of(const TaskEnd& end, int otherwise) {
    if (end.exit_code) return *end.exit_code;
    if (end.signal) return 128 + *end.signal;
    return otherwise;
}

}  // namespace

AttemptRunner::AttemptRunner(const plan::Plan& plan, std::string digest, std::string plan_path,
                             std::string mpi, Granted granted)
    : plan_(plan),
      granted_(std::move(granted)),
      port_(base::ReservedPort::reserve()),
      rank_port_(base::ReservedPort::reserve()),
      output_directory_(log_directory(plan)),
      digest_(std::move(digest)),
      plan_path_(std::move(plan_path)),
      mpi_(std::move(mpi)),
      log_(log_directory(plan), traces_directory(plan), granted_.nodes) {
    for (const std::string& node : granted_.nodes)
        addresses_.push_back(base::address_of(node));
    record_.number = granted_.restart + 1;
    record_.slurm_job_id = granted_.job_id;
    record_.nodes = granted_.nodes;
    record_.start = base::now();
}

int AttemptRunner::run() {
    begin_phase("outputs");
    if (auto made = make_outputs(); !made) {
        std::fprintf(stderr, "batchai: error: %s\n", made.error().text().c_str());
        fail({"JobFailed", made.error().text(), "outputs", granted_.nodes.front(), {}, {}, {}, {}},
             1);
        return *record_.exit_code;
    }
    end_phase(0);
    log_.all_nodes(fmt::format("job {} (Slurm job {}) starts on {} nodes, attempt {}",
                               plan_.identity.job, granted_.job_id, granted_.nodes.size(),
                               record_.number));
    for (const plan::Step& step : plan_.steps) {
        if (step.kind == plan::StepKind::preparation) {
            if (!prepare(step)) return *record_.exit_code;
            continue;
        }
        if (step.pmix && !wire_up(step)) return *record_.exit_code;
        if (!run_ranks(step)) return *record_.exit_code;
    }
    finish(0);
    return 0;
}

base::Result<void> AttemptRunner::make_outputs() {
    std::vector<std::string> wanted{output_directory_, plan_.directories.shared_job_temp,
                                    traces_directory(plan_),
                                    plan_.directories.job_directory + "/attempts"};
    for (const plan::OutputDirectory& output : plan_.outputs) {
        if (output.create && !output.path_host.empty()) wanted.push_back(output.path_host);
    }
    for (const std::string& directory : wanted) {
        if (auto made = base::make_directories(directory); !made) return made;
    }
    const int slots = std::max(1, plan_.allocation.processes_per_node);
    return base::write_atomically(plan_.directories.job_directory + "/hostfile",
                                  host_file(addresses_, slots));
}

bool AttemptRunner::prepare(const plan::Step& step) {
    begin_phase("preparation");
    std::printf("batchai: preparing %zu nodes\n", granted_.nodes.size());
    std::fflush(stdout);
    log_.all_nodes("job preparation starts");
    const StepFiles files{output_path(step.stdout_name), output_path(step.stderr_name)};
    const auto result =
        run_step(srun_arguments(plan_, step, "none", files),
                 srun_environment(step_environment(step.kind)), signals_, {}, [] {});
    log_.collect_traces();
    if (!result || result->exit_code == 0) {
        end_phase(result ? 0 : 1);
        if (!result) {
            fail({"JobPreparationFailed", result.error().text(), "preparation", {}, {}, {}, {}, {}},
                 1);
            return false;
        }
        log_.all_nodes("job preparation has ended with exit code 0");
        return true;
    }
    end_phase(result->exit_code);
    std::fputs(result->messages.c_str(), stderr);
    if (stopped(*result, "preparation")) return false;
    const auto node_file = [&](const std::string& pattern, const std::string& node) {
        std::string path = pattern;
        if (const auto at = path.find("%N"); at != std::string::npos) path.replace(at, 2, node);
        return path;
    };
    std::vector<std::string> error_files;
    for (const std::string& node : granted_.nodes)
        error_files.push_back(node_file(files.standard_error, node));
    Failure failure{"JobPreparationFailed",
                    std::string(preparation_failed),
                    "preparation",
                    {},
                    {},
                    {},
                    result->exit_code,
                    {}};
    int exit_code = result->exit_code;
    if (const auto found = culprit(bad_ends(result->messages), error_files)) {
        exit_code = exit_code_of(found->first, exit_code);
        failure.node = found->first.node;
        failure.signal = found->first.signal;
        failure.exit_code = exit_code;
        failure.first_error_line = found->second;
    }
    fail(std::move(failure), exit_code);
    return false;
}

bool AttemptRunner::wire_up(const plan::Step& ranks) {
    begin_phase("wire-up");
    const auto arguments = wire_up_arguments(plan_, ranks, mpi_, wire_up_program());
    // Needs none of the job's mounts: with neither the plan nor sbatch's --job-json in its
    // environment no sandbox is built.
    base::Environment environment = srun_environment({});
    std::erase_if(environment, [](const std::string& entry) {
        return entry.starts_with("BATCHAI_PLAN") ||
               entry.find("_SLURM_SPANK_OPTION_batchai_") < entry.find('=');
    });
    const auto check = [&] {
        return run_step(arguments, environment, signals_, wire_up_deadline, [] {});
    };
    auto result = check();
    for (int attempt = 1; attempt < wire_up_attempts && worth_another_try(result); ++attempt) {
        log_.master("PMIx did not answer in time; the wire-up check is made again");
        result = check();
    }
    log_.collect_traces();
    if (result && result->exit_code == 0) {
        end_phase(0);
        log_.master(fmt::format("PMIx wires {} ranks", ranks.processes));
        return true;
    }
    end_phase(result ? result->exit_code : 1);
    const std::string said = result ? result->messages : result.error().text() + "\n";
    std::ofstream(output_path(ranks.stderr_name), std::ios::app) << said;
    std::fputs(said.c_str(), stderr);
    if (result && stopped(*result, "wire-up")) return false;
    int exit_code = result ? result->exit_code : 1;
    if (const auto ends = bad_ends(said); !ends.empty())
        exit_code = exit_code_of(ends.front(), exit_code);
    fail({"WireUpFailed",
          "The ranks could not be wired together by PMIx",
          "wire-up",
          {},
          {},
          {},
          exit_code,
          wire_up_complaint(said)},
         exit_code);
    return false;
}

bool AttemptRunner::run_ranks(const plan::Step& step) {
    begin_phase("ranks");
    std::printf("batchai: %d ranks start; output in %s\n", step.processes,
                output_directory_.c_str());
    std::fflush(stdout);
    log_.all_nodes(fmt::format("the job's command starts, {} processes", step.processes));
    const std::vector<std::string> error_files = rank_error_files(step);
    const StepFiles files{output_path(step.stdout_name), rank_error_pattern(plan_, record_.number)};
    auto merger = LineMerger::open(error_files, output_path(step.stderr_name));
    if (!merger) {
        fail({"JobFailed", merger.error().text(), "ranks", granted_.nodes.front(), {}, {}, {}, {}},
             1);
        return false;
    }
    std::string merge_problem;
    const auto merge = [&](base::Result<void> merged) {
        if (!merged) merge_problem = merged.error().text();
    };
    const auto result = run_step(srun_arguments(plan_, step, mpi_, files),
                                 srun_environment(step_environment(step.kind)), signals_, {},
                                 [&] { merge(merger->poll()); });
    merge(merger->finish());
    if (!merge_problem.empty())
        std::fprintf(stderr, "batchai: warning: standard error: %s\n", merge_problem.c_str());
    log_.collect_traces();
    const int step_code = result ? result->exit_code : 1;
    const std::string said = result ? result->messages : result.error().text() + "\n";
    if (!said.empty()) std::ofstream(output_path(step.stderr_name), std::ios::app) << said;
    end_phase(step_code);
    log_.all_nodes(fmt::format("the job's command has ended with exit code {}", step_code));
    if (step_code == 0) return true;
    if (result && stopped(*result, "ranks")) return false;

    Failure failure{"JobFailed", std::string(job_failed), "ranks", {}, {}, {}, step_code, {}};
    int exit_code = step_code;
    if (const auto found = culprit(bad_ends(said), error_files)) {
        exit_code = exit_code_of(found->first, step_code);
        failure.node = found->first.node;
        failure.rank = found->first.task;
        failure.signal = found->first.signal;
        failure.exit_code = exit_code;
        failure.first_error_line = found->second;
    }
    std::fprintf(stderr, "batchai: %s%s\n", failure.message.c_str(),
                 failure.rank ? fmt::format(": rank {} on {}: {}", *failure.rank, failure.node,
                                            failure.first_error_line)
                                    .c_str()
                              : "");
    fail(std::move(failure), exit_code);
    return false;
}

bool AttemptRunner::stopped(const StepResult& result, const std::string& phase) {
    if (!result.stopped_by) return false;
    fail({"JobTerminated",
          "The specified job has been terminated by the user",
          phase,
          {},
          {},
          result.stopped_by,
          {},
          {}},
         128 + *result.stopped_by);
    return true;
}

void AttemptRunner::begin_phase(const std::string& name) {
    record_.phases.push_back({name, base::now(), {}, 0});
    save();
}

void AttemptRunner::end_phase(int exit_code) {
    record_.phases.back().end = base::now();
    record_.phases.back().exit_code = exit_code;
    save();
}

void AttemptRunner::fail(Failure failure, int exit_code) {
    // The phase that is still open ends here.
    if (!record_.phases.back().end) {
        record_.phases.back().end = base::now();
        record_.phases.back().exit_code = exit_code;
    }
    record_.failure = std::move(failure);
    finish(exit_code == 0 ? 1 : exit_code);
}

void AttemptRunner::save() {
    const std::string path = attempt_path(plan_.directories.job_directory, record_.number);
    auto saved = base::make_directories(plan_.directories.job_directory + "/attempts");
    if (saved) saved = base::write_atomically(path, to_json(record_));
    if (!saved) std::fprintf(stderr, "batchai: warning: %s\n", saved.error().text().c_str());
}

void AttemptRunner::finish(int exit_code) {
    record_.end = base::now();
    record_.exit_code = exit_code;
    log_.all_nodes(fmt::format("the job has ended with exit code {}", exit_code));
    save();
}

base::Environment AttemptRunner::step_environment(plan::StepKind kind) const {
    std::string host_list;
    for (const std::string& address : addresses_)
        host_list += (host_list.empty() ? "" : ",") + address;
    base::Environment out{"BATCHAI_PLAN=" + plan_path_, "BATCHAI_PLAN_DIGEST=" + digest_,
                          "AZ_BATCH_HOST_LIST=" + host_list,
                          "AZ_BATCHAI_MPI_MASTER_NODE=" + addresses_.front(),
                          "AZ_BATCHAI_JOB_MASTER_NODE_IP=" + addresses_.front()};
    if (port_)
        out.push_back(
            fmt::format("AZ_BATCH_MASTER_NODE={}:{}", addresses_.front(), port_->number()));
    // The plugin makes the ranks' RANK, MASTER_PORT, … of these. What runs once on a node or once
    // altogether is no rank, and would be misled by a WORLD_SIZE.
    if (kind != plan::StepKind::ranks)
        out.emplace_back(BATCHAI_RANK_VARIABLES_VARIABLE "=" BATCHAI_NO_RANKS);
    else if (rank_port_)
        out.push_back(fmt::format(BATCHAI_MASTER_VARIABLE "={} {}", addresses_.front(),
                                  rank_port_->number()));
    return out;
}

std::vector<std::string> AttemptRunner::rank_error_files(const plan::Step& step) const {
    std::vector<std::string> files;
    files.reserve(static_cast<std::size_t>(step.processes));
    for (int rank = 0; rank < step.processes; ++rank)
        files.push_back(rank_error_file(plan_, record_.number, rank));
    return files;
}

std::string AttemptRunner::output_path(const std::string& name) const {
    return output_directory_ + "/" + name;
}

}  // namespace batchai::run
