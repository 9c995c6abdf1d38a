// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "node/job_directory.hpp"
#include "node/node_root.hpp"
#include "plan/paths.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

namespace {

base::Result<void> make_outputs(const Context& context) {
    const plan::Directories& directories = context.plan.directories;
    if (plan::is_within(context.logs.path(), directories.job_temp)) {
        // So that the epilog removes it even if the job never comes to a step.
        const auto root = TRY(node::open_node_root(directories.node_root));
        if (root.path != directories.node_root)
            return base::fail("belongs to another user, and the logs are to be below it",
                              directories.node_root,
                              "choose a stdOutErrPathPrefix on a file system that all nodes share");
        TRY(node::make_job_directory(root, directories.job_temp, context.granted.job_id));
    }
    TRY(context.logs.make());
    std::vector<std::string> wanted{directories.shared_job_temp,
                                    context.files().node_logs().string()};
    for (const plan::OutputDirectory& output : context.plan.outputs) {
        if (output.create && !output.path_host.empty()) wanted.push_back(output.path_host);
    }
    for (const std::string& directory : wanted)
        TRY(base::make_directories(directory));
    return write_host_file(context);
}

}  // namespace

PhaseEnd Outputs::run(Context& context) {
    if (auto made = make_outputs(context); !made) {
        std::fprintf(stderr, "batchai: error: %s\n", made.error().text().c_str());
        return ends_with({.failure = {.code = "JobFailed",
                                      .message = made.error().text(),
                                      .phase = std::string(name),
                                      .node = context.granted.nodes.front()}});
    }
    context.log.all_nodes(fmt::format("job {} (Slurm job {}) starts on {} nodes, attempt {}",
                                      context.plan.identity.job, context.granted.job_id,
                                      context.granted.nodes.size(), context.attempt()));
    return {};
}

}  // namespace batchai::run
