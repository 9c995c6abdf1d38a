// SPDX-License-Identifier: GPL-2.0-or-later
// The part of an attempt in which the job's own ranks run; an elastic job's more than once.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "run/again/survivors.hpp"
#include "run/attempt.hpp"
#include "run/blame/culprit.hpp"
#include "run/line_merger.hpp"
#include "run/phases/wire_up_check.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds wire_up_deadline{60};
// With a container to make, and volumes to mount in it.
constexpr std::chrono::seconds container_deadline{240};
constexpr int wire_up_attempts = 3;
constexpr std::string_view job_failed = "Job failed with non-zero exit code";
// For Slurm's controller to hear of a lost node and take it out of the job.
constexpr std::chrono::seconds settling{2};

}  // namespace

bool AttemptRunner::run_until_done(const plan::Step& step) {
    plan::Step now = step;
    watch_first_node();  // should it have ended since
    while (true) {
        std::optional<Ending> end;
        if (step.pmix) end = wire_up(now);
        if (!end) end = run_ranks(now);
        if (!end) return true;
        if (!step.pmix || !start_again(*end)) {
            fail(std::move(end->failure), end->exit_code);
            return false;
        }
        now = shrunk(step, nodes_.size());
    }
}

bool AttemptRunner::start_again(const Ending& end) {
    if (!elastic_ || !end.may_start_again) return false;
    const auto refuse = [&](const std::string& why) {
        log_.master("the ranks are not started again: " + why);
        std::fprintf(stderr, "batchai: the ranks are not started again: %s\n", why.c_str());
        return false;
    };
    const auto restarts = static_cast<int>(record_.restarts.size());
    if (restarts >= elastic_->restarts)
        return refuse(fmt::format("{} restarts are the limit ({})", elastic_->restarts,
                                  plan::elastic_restarts_variable));
    std::this_thread::sleep_for(settling);
    auto left = ask_for_survivors(slurm::Client(), granted_.job_id, granted_.nodes);
    if (!left) return refuse(left.error().text());
    if (static_cast<int>(left->size()) < elastic_->least_nodes)
        return refuse(fmt::format("{} nodes are left, {} are needed ({})", left->size(),
                                  elastic_->least_nodes, plan::elastic_nodes_variable));
    use_nodes(std::move(*left));
    if (auto written = write_host_file(); !written) return refuse(written.error().text());
    record_.restarts.push_back({base::now(), nodes_, end.failure});
    save();
    watch_first_node();
    const std::string line = fmt::format(
        "the ranks start again on {} of {} nodes, restart {} of {}: {}", nodes_.size(),
        granted_.nodes.size(), restarts + 1, elastic_->restarts,
        end.failure.first_error_line.empty() ? end.failure.message : end.failure.first_error_line);
    log_.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    return true;
}

base::Result<StepResult> AttemptRunner::check_wire_up(const plan::Step& ranks, bool in_container) {
    const auto arguments = wire_up_arguments(
        plan_, ranks, mpi_, in_container ? check_in_container() : check_on_nodes(), step_nodes());
    const auto environment =
        in_container ? srun_environment(step_environment(ranks.kind)) : environment_of_bare_nodes();
    const auto deadline = in_container ? container_deadline : wire_up_deadline;
    const auto check = [&] { return run_step(arguments, environment, signals_, deadline, [] {}); };
    auto result = check();
    for (int attempt = 1; attempt < wire_up_attempts && worth_another_try(result); ++attempt) {
        log_.master("PMIx did not answer in time; the wire-up check is made again");
        result = check();
    }
    log_.collect_traces();
    return result;
}

std::optional<AttemptRunner::Ending> AttemptRunner::wire_up(const plan::Step& ranks) {
    begin_phase("wire-up");
    expect_node_failures();
    bool in_container = plan_.container.has_value();
    auto result = check_wire_up(ranks, in_container);
    const auto reason =
        in_container && result ? why_not_in_container(result->messages) : std::nullopt;
    if (reason && !result->stopped_by) {
        const std::string notice = fmt::format(
            "the wire-up check runs on the nodes, not in the container, and tells nothing of the "
            "image's PMIx: {}",
            *reason);
        log_.master(notice);
        std::printf("batchai: notice: %s\n", notice.c_str());
        std::fflush(stdout);
        in_container = false;
        result = check_wire_up(ranks, in_container);
    }
    if (result && result->exit_code == 0) {
        end_phase(0);
        log_.master(fmt::format("PMIx wires {} ranks{}", ranks.processes,
                                in_container ? " in the container" : ""));
        return std::nullopt;
    }
    end_phase(result ? result->exit_code : 1);
    const std::string said = result ? result->messages : result.error().text() + "\n";
    std::ofstream(output_path(ranks.stderr_name), std::ios::app) << said;
    std::fputs(said.c_str(), stderr);
    if (result) {
        if (auto end = ended_from_outside(*result, "wire-up")) return end;
    }
    if (auto end = node_failure("wire-up")) return end;
    int exit_code = result ? result->exit_code : 1;
    if (const auto ends = bad_ends(said); !ends.empty())
        exit_code = exit_code_of(ends.front(), exit_code);
    WireUpFault fault = wire_up_fault(said, in_container);
    std::fprintf(stderr, "batchai: %s: %s\n", fault.message.c_str(), fault.line.c_str());
    return Ending{{std::move(fault.code),
                   std::move(fault.message),
                   "wire-up",
                   {},
                   {},
                   {},
                   exit_code,
                   std::move(fault.line)},
                  exit_code,
                  true};
}

std::optional<AttemptRunner::Ending> AttemptRunner::run_ranks(const plan::Step& step) {
    begin_phase("ranks");
    std::printf("batchai: %d ranks start; output in %s\n", step.processes,
                output_directory_.c_str());
    std::fflush(stdout);
    log_.all_nodes(fmt::format("the job's command starts, {} processes", step.processes));
    const std::vector<std::string> error_files = rank_error_files(step);
    const StepFiles files{output_path(step.stdout_name),
                          files_of_job().rank_error(start_name(), "%t").string()};
    auto merger = LineMerger::open(error_files, output_path(step.stderr_name));
    if (!merger)
        return Ending{{"JobFailed", merger.error().text(), "ranks", nodes_.front(), {}, {}, {}, {}},
                      1,
                      false};
    std::string merge_problem;
    const auto merge = [&](base::Result<void> merged) {
        if (!merged) merge_problem = merged.error().text();
    };
    expect_node_failures();
    const auto result = run_step(srun_arguments(plan_, step, mpi_, files, step_nodes()),
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
    if (result) {
        if (auto end = ended_from_outside(*result, "ranks"); end && step_code != 0) return end;
    }
    if (auto end = node_failure("ranks", step_code == 0)) return end;
    if (step_code == 0) return std::nullopt;

    record::Failure failure{"JobFailed", std::string(job_failed), "ranks", {}, {}, {}, step_code,
                            {}};
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
    return Ending{std::move(failure), exit_code, true};
}

std::vector<std::string> AttemptRunner::rank_error_files(const plan::Step& step) const {
    std::vector<std::string> files;
    const std::string start = start_name();
    files.reserve(static_cast<std::size_t>(step.processes));
    for (int rank = 0; rank < step.processes; ++rank)
        files.push_back(files_of_job().rank_error(start, std::to_string(rank)).string());
    return files;
}

std::string AttemptRunner::start_name() const {
    if (record_.restarts.empty()) return std::to_string(record_.number);
    return fmt::format("{}-{}", record_.number, record_.restarts.size());
}

std::vector<std::string> AttemptRunner::step_nodes() const {
    return nodes_.size() == granted_.nodes.size() ? std::vector<std::string>() : nodes_;
}

}  // namespace batchai::run
