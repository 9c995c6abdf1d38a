// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/attempt.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "node/job_directory.hpp"
#include "plan/paths.hpp"
#include "record/step_variables.hpp"
#include "run/blame/culprit.hpp"
#include "run/srun/hosts.hpp"
#include "run/srun/srun_arguments.hpp"
#include "spank/protocol.h"

namespace batchai::run {

namespace {

constexpr std::string_view preparation_failed =
    "Job preparation task failed with non-zero exit code";

std::string log_directory(const plan::Plan& plan) {
    const auto& directories = plan.directories;
    return directories.stdouterr_host.empty() ? directories.stdouterr : directories.stdouterr_host;
}

std::string traces_directory(const plan::Plan& plan) {
    return record::JobFiles(plan.directories.job_directory).node_logs().string();
}

}  // namespace

AttemptRunner::AttemptRunner(const plan::Plan& plan, std::string digest, std::string plan_path,
                             const site::Site& site, image::InUse images_in_use, Granted granted)
    : plan_(plan),
      granted_(std::move(granted)),
      port_(base::ReservedPort::reserve()),
      rank_port_(base::ReservedPort::reserve()),
      output_directory_(log_directory(plan)),
      digest_(std::move(digest)),
      plan_path_(std::move(plan_path)),
      mpi_(site.mpi),
      site_(site),
      images_in_use_(std::move(images_in_use)),
      log_(log_directory(plan), traces_directory(plan), granted_.nodes) {
    // Was found right when the job was planned.
    if (const auto elastic = plan::elastic_of(plan.environment, plan.allocation.nodes))
        elastic_ = *elastic;
    use_nodes(granted_.nodes);
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
    watch_first_node();
    if (plan_.container && !have_image()) return *record_.exit_code;
    for (const plan::Step& step : plan_.steps) {
        if (step.kind == plan::StepKind::preparation) {
            if (!prepare(step)) return *record_.exit_code;
            continue;
        }
        if (!run_until_done(step)) return *record_.exit_code;
    }
    finish(0);
    return 0;
}

base::Result<void> AttemptRunner::make_outputs() {
    const plan::Directories& directories = plan_.directories;
    if (plan::is_within(output_directory_, directories.job_temp)) {
        // So that the epilog removes it even if the job never comes to a step.
        const auto root = node::open_private_root(directories.node_root);
        if (!root) return tl::unexpected<base::Error>(root.error());
        const auto made = node::make_job_directory(*root, directories.job_temp, granted_.job_id);
        if (!made) return tl::unexpected<base::Error>(made.error());
    }
    std::vector<std::string> wanted{output_directory_, plan_.directories.shared_job_temp,
                                    traces_directory(plan_), files_of_job().attempts().string()};
    for (const plan::OutputDirectory& output : plan_.outputs) {
        if (output.create && !output.path_host.empty()) wanted.push_back(output.path_host);
    }
    for (const std::string& directory : wanted) {
        if (auto made = base::make_directories(directory); !made) return made;
    }
    return write_host_file();
}

base::Result<void> AttemptRunner::write_host_file() {
    const int slots = std::max(1, plan_.allocation.processes_per_node);
    return base::write_atomically(files_of_job().host_file(), host_file(addresses_, slots))
        .and_then([&] {
            return record::write_step_variables(files_of_job(),
                                                step_environment(plan::StepKind::master));
        });
}

void AttemptRunner::use_nodes(std::vector<std::string> nodes) {
    nodes_ = std::move(nodes);
    addresses_.clear();
    for (const std::string& node : nodes_)
        addresses_.push_back(base::address_of(node));
}

bool AttemptRunner::prepare(const plan::Step& step) {
    begin_phase("preparation");
    std::printf("batchai: preparing %zu nodes\n", granted_.nodes.size());
    std::fflush(stdout);
    log_.all_nodes("job preparation starts");
    const StepFiles files{output_path(step.stdout_name), output_path(step.stderr_name)};
    expect_node_failures();
    const auto result =
        run_step(srun_arguments(plan_, step, "none", files),
                 srun_environment(step_environment(step.kind)), signals_, {}, [] {});
    log_.collect_traces();
    if (auto end = node_failure("preparation", result && result->exit_code == 0);
        end && !(result && result->stopped_by)) {
        end_phase(result ? result->exit_code : 1);
        fail(std::move(end->failure), end->exit_code);
        return false;
    }
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
    if (auto end = ended_from_outside(*result, "preparation")) {
        fail(std::move(end->failure), end->exit_code);
        return false;
    }
    const auto node_file = [&](const std::string& pattern, const std::string& node) {
        std::string path = pattern;
        if (const auto at = path.find("%N"); at != std::string::npos) path.replace(at, 2, node);
        return path;
    };
    std::vector<std::string> error_files;
    for (const std::string& node : granted_.nodes)
        error_files.push_back(node_file(files.standard_error, node));
    record::Failure failure{"JobPreparationFailed",
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

std::optional<AttemptRunner::Ending> AttemptRunner::ended_from_outside(const StepResult& result,
                                                                       const std::string& phase) {
    if (!result.stopped_by) return std::nullopt;
    return Ending{{"JobTerminated",
                   "The specified job has been terminated by the user",
                   phase,
                   {},
                   {},
                   result.stopped_by,
                   {},
                   {}},
                  128 + *result.stopped_by,
                  false};
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

void AttemptRunner::fail(record::Failure failure, int exit_code) {
    // The phase that is still open ends here.
    if (!record_.phases.back().end) {
        record_.phases.back().end = base::now();
        record_.phases.back().exit_code = exit_code;
    }
    record_.failure = std::move(failure);
    finish(exit_code == 0 ? 1 : exit_code);
}

void AttemptRunner::save() {
    const auto path = files_of_job().attempt(record_.number);
    auto saved = base::make_directories(files_of_job().attempts());
    if (saved) saved = base::write_atomically(path, to_json(record_));
    if (!saved) std::fprintf(stderr, "batchai: warning: %s\n", saved.error().text().c_str());
}

void AttemptRunner::finish(int exit_code) {
    record_.end = base::now();
    record_.exit_code = exit_code;
    log_.all_nodes(fmt::format("the job has ended with exit code {}", exit_code));
    store_logs();
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
    if (kind == plan::StepKind::ranks && elastic_) {
        out.push_back("BATCHAI_ELASTIC_DIRECTORY=" + files_of_job().elastic().string());
        out.emplace_back("HOROVOD_ELASTIC=1");
    }
    if (kind == plan::StepKind::preparation)
        out.emplace_back(BATCHAI_IDENTITY_VARIABLE "=" BATCHAI_IDENTITY_ROOT);
    if (kind != plan::StepKind::ranks)
        out.emplace_back(BATCHAI_RANK_VARIABLES_VARIABLE "=" BATCHAI_NO_RANKS);
    else if (rank_port_)
        out.push_back(fmt::format(BATCHAI_MASTER_VARIABLE "={} {}", addresses_.front(),
                                  rank_port_->number()));
    return out;
}

std::string AttemptRunner::output_path(const std::string& name) const {
    return output_directory_ + "/" + name;
}

}  // namespace batchai::run
