// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/tensorflow/tensorflow_job.hpp"

#include <utility>

#include "base/file.hpp"
#include "run/blame/culprit.hpp"
#include "run/tensorflow/wiring.hpp"

namespace batchai::run {

base::Result<void> TensorFlowJob::start(plan::Step& workers, base::Environment& environment) {
    if (!context_.held_ports) return {};
    const TensorFlowTasks& tasks = context_.held_ports->tasks;
    if (tasks.cluster.ends_with_master()) {
        master_end_ = context_.files().master_end(context_.start()).string();
        // NFS clients may not see for a while that a file has come, but see at once that one has
        // changed.
        TRY(base::write_atomically(master_end_, ""));
    }
    for (std::string& variable : host_variables(tasks))
        environment.push_back(std::move(variable));
    workers.command = worker_command(context_.plan, tasks, workers.command, master_end_);
    if (tasks.parameter_servers.empty()) return {};
    return servers_.emplace(context_).start();
}

bool TensorFlowJob::poll() {
    servers_failed_ = servers_ && servers_->poll();
    return servers_failed_ || master_has_ended();
}

bool TensorFlowJob::master_has_ended() const {
    return !master_end_.empty() && !base::read_file(master_end_).value_or(std::string()).empty();
}

void TensorFlowJob::end(const base::Result<StepResult>& workers) {
    const bool workers_failed =
        workers && workers->exit_code != 0 && !workers->stopped_by && !has_succeeded(*workers);
    if (servers_) servers_->end(workers_failed);
    context_.held_ports.reset();
}

bool TensorFlowJob::has_succeeded(const StepResult& workers) const {
    return !servers_failed_ && !workers.stopped_by && master_has_ended();
}

void TensorFlowJob::remove_copied_output() const {
    if (servers_) servers_->remove_copied_output();
}

std::optional<FailureOfServers> TensorFlowJob::failure(const record::Failure& of_worker,
                                                       std::string_view phase) const {
    auto of_servers = servers_ ? servers_->failure(phase) : std::nullopt;
    if (of_servers && !servers_failed_ &&
        tells_of_a_broken_connection(of_servers->failure.first_error_line) &&
        !tells_of_a_broken_connection(of_worker.first_error_line))
        return std::nullopt;
    return of_servers;
}

}  // namespace batchai::run
