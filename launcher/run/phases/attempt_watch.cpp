// SPDX-License-Identifier: GPL-2.0-or-later
// The step of an elastic job that outlives its first node.
#include <filesystem>
#include <system_error>

#include "run/again/watch_first_node.hpp"
#include "run/attempt.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

void AttemptRunner::watch_first_node() {
    if (!elastic_ || nodes_.size() < 2 || (watch_ && watch_->runs())) return;
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    const std::string& directory = plan_.directories.job_directory;
    if (watch_)
        log_.master("the step that watches the first node has ended and is started again; see " +
                    directory + "/watch.log");
    const FirstNodeWatch watch{granted_.job_id, granted_.nodes.front(),
                               attempt_path(directory, record_.number), directory + "/slurm.log"};
    auto step = BackgroundStep::start(watch_arguments(watch, program, nodes_[1]),
                                      environment_of_bare_nodes(), directory + "/watch.log");
    if (step) {
        watch_ = std::move(*step);
    } else {
        log_.master("nobody watches the first node, so its loss would end the job: " +
                    step.error().text());
    }
}

}  // namespace batchai::run
