// SPDX-License-Identifier: GPL-2.0-or-later
// The step of an elastic job that outlives its first node.
#include <filesystem>
#include <system_error>

#include "record/job_files.hpp"
#include "run/again/watch_first_node.hpp"
#include "run/attempt.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

void AttemptRunner::watch_first_node() {
    if (!elastic_ || nodes_.size() < 2 || (watch_ && watch_->runs())) return;
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    const record::JobFiles files = files_of_job();
    const std::string log = files.watch_log().string();
    if (watch_)
        log_.master("the step that watches the first node has ended and is started again; see " +
                    log);
    const FirstNodeWatch watch{granted_.job_id, granted_.nodes.front(),
                               files.attempt(record_.number).string(), files.slurm_log().string()};
    auto step = BackgroundStep::start(watch_arguments(watch, program, nodes_[1]),
                                      environment_of_bare_nodes(), log);
    if (step) {
        watch_ = std::move(*step);
    } else {
        log_.master("nobody watches the first node, so its loss would end the job: " +
                    step.error().text());
    }
}

}  // namespace batchai::run
