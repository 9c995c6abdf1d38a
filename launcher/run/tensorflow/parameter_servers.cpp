// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/tensorflow/parameter_servers.hpp"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "record/task_reports.hpp"
#include "run/blame/outside.hpp"
#include "run/blame/slurm_words.hpp"
#include "run/srun/srun_arguments.hpp"
#include "run/tensorflow/wiring.hpp"

namespace batchai::run {

namespace {

using Clock = std::chrono::steady_clock;

// Parameter servers ignore TERM, unless their program handles it. If it ends then, it has not
// failed: Slurm ends the job, or warns it of its time limit. The ranks then have this time to end
// by themselves.
constexpr std::chrono::seconds after_term{60};

// Workers that have lost a parameter server may end before its srun knows of that.
constexpr std::chrono::milliseconds for_word_of_servers{1500};

std::string file_name(std::string_view task) {
    return fmt::format("ps-{}", task);
}

bool were_told_to_end(std::string_view messages, int exit_code) {
    const auto ends = bad_ends(messages);
    if (ends.empty()) return exit_code == 128 + SIGTERM;
    return std::all_of(ends.begin(), ends.end(), [](const TaskEnd& end) {
        return end.victim || exit_code_of(end, 0) == 128 + SIGTERM;
    });
}

}  // namespace

ParameterServers::ParameterServers(const Context& context)
    : context_(context),
      step_(*context.step(plan::StepKind::parameter_servers)),
      outputs_(context.logs),
      messages_path_(context.files().step_messages(context.start(), "ps").string()) {
    const std::string name = fmt::format("{}.ps", context.start());
    words_ = {.job_id = context.granted.job_id,
              .error_files = {},
              .refusals = context.files().refusals(name)};
    for (int task = 0; task < step_.processes; ++task)
        words_.error_files.push_back(context.rank_error_file(file_name(std::to_string(task))));
}

base::Result<void> ParameterServers::start() {
    // An earlier run in the same allocation may have left files of the same names.
    std::error_code ignored;
    std::filesystem::remove(messages_path_, ignored);
    record::forget_reports(words_.refusals);
    for (int task = 0; task < step_.processes; ++task)
        context_.remove_rank_files(file_name(std::to_string(task)));
    std::vector<TaskFile> printed;
    std::vector<TaskFile> complained;
    for (int i = 0; i < step_.processes; ++i) {
        const std::string task = std::to_string(i);
        printed.push_back({task, context_.rank_output_file(file_name(task))});
        complained.push_back({task, context_.rank_error_file(file_name(task))});
    }
    TRY(outputs_.add(step_.stdout_name, printed));
    TRY(outputs_.add(step_.stderr_name, complained));
    const TensorFlowTasks& tasks = context_.held_ports->tasks;
    step_.command = parameter_server_command(context_.plan, tasks, step_.command);
    std::vector<std::string> nodes;
    for (const TaskPort& port : tasks.ports.parameter_servers)
        nodes.push_back(port.node);
    base::Environment environment = step_environment(context_, step_.kind);
    for (std::string& variable : host_variables(tasks))
        environment.push_back(std::move(variable));
    const std::string name = fmt::format("{}.ps", context_.start());
    for (std::string& variable : report_variables(context_.files(), name))
        environment.push_back(std::move(variable));
    for (std::string& variable : usage_variables(name))
        environment.push_back(std::move(variable));
    starts_ = ExpectedStarts{.files = context_.files(),
                             .step = name,
                             .nodes = static_cast<int>(nodes.size()),
                             .node_of_task = nodes,
                             .error_files = words_.error_files};
    const StepFiles files{.standard_output = context_.rank_output_file(file_name("%t")),
                          .standard_error = context_.rank_error_file(file_name("%t"))};
    running_ = TRY(BackgroundStep::start(srun_arguments(context_.plan, step_, "none", files, nodes),
                                         srun_environment(context_.plan, files, environment),
                                         {.messages_path = messages_path_, .end_signal = SIGTERM}));
    return {};
}

std::string ParameterServers::messages() const {
    return base::read_file(messages_path_).value_or(std::string());
}

bool ParameterServers::poll() {
    outputs_.poll();
    if (!running_) return false;
    // Those that have started, and the ranks, would wait for the others.
    if (!launch_failures(messages()).empty()) return true;
    if (running_->runs()) return false;
    const int exit_code = running_->exit_code().value_or(0);
    if (exit_code == 0) return false;
    if (!ended_at_) ended_at_ = Clock::now();
    return !were_told_to_end(messages(), exit_code) || Clock::now() > *ended_at_ + after_term;
}

void ParameterServers::end(bool workers_failed) {
    if (!running_) return;
    const auto until = Clock::now() + for_word_of_servers;
    while (workers_failed && running_->runs() && bad_ends(messages()).empty() &&
           launch_failures(messages()).empty() && Clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    said_ = messages();
    if (!running_->runs()) exit_code_ = running_->exit_code();
    running_.reset();
    if (!launch_failures(said_).empty()) not_started_ = starts_of(&*starts_, said_, 1).missing;
    copied_ = outputs_.finish("the parameter servers' output", context_.log);
    if (!bad_ends(said_).empty() || !not_started_.empty() || exit_code_.value_or(0) != 0)
        context_.logs.append_text(file_of_task(step_.stderr_name, "0"), said_);
}

std::optional<FailureOfServers> ParameterServers::failure(std::string_view phase) const {
    if (!not_started_.empty())
        return FailureOfServers{.failure = {.phase = std::string(phase),
                                            .node = not_started_.front().node,
                                            .exit_code = 1,
                                            .first_error_line = start_failure_line(
                                                not_started_, {.task = "parameter server"})},
                                .by = record::EndedBy::start};
    const int exit_code = exit_code_.value_or(0);
    const auto ends = bad_ends(said_);
    const bool all_are_victims =
        std::all_of(ends.begin(), ends.end(), [](const TaskEnd& end) { return end.victim; });
    if (exit_code == 0 && all_are_victims) return std::nullopt;
    record::Failure failure{.phase = std::string(phase)};
    const Blame blamed = blame(failure, exit_code == 0 ? 1 : exit_code, said_, words_);
    failure.exit_code = blamed.exit_code;
    if (failure.first_error_line.empty()) failure.first_error_line = first_error_line(said_);
    failure.first_error_line =
        failure.rank
            ? fmt::format("parameter server {}: {}", *failure.rank, failure.first_error_line)
            : fmt::format("parameter servers: {}", failure.first_error_line);
    failure.rank.reset();  // its number is not that of a rank
    const auto by = blamed.for_memory ? record::EndedBy::memory
                                      : end_of_step(said_).value_or(record::EndedBy::program);
    return FailureOfServers{.failure = std::move(failure), .by = by};
}

void ParameterServers::remove_copied_output() const {
    if (!copied_ || context_.plan.directories.stdouterr_host.empty()) return;
    for (int task = 0; task < step_.processes; ++task)
        context_.remove_rank_files(file_name(std::to_string(task)));
}

}  // namespace batchai::run
