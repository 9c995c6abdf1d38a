// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "node/keeper/leftovers.hpp"
#include "node/keeper/registry.hpp"
#include "node/node_root.hpp"
#include "node/reply.hpp"
#include "node/volumes/volumes.hpp"
#include "plan/paths.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds patience{5};

bool are_on_this_node(const Context& context) {
    return plan::is_within(context.logs.path(), context.plan.directories.job_temp);
}

base::Result<void> make_outputs(Context& context) {
    const plan::Directories& directories = context.plan.directories;
    if (are_on_this_node(context)) {
        // Registers the directory as used by this process, so that it is removed after the job even
        // if no step ever runs here.
        const auto root = TRY(node::open_node_root(directories.node_root));
        if (root.path != directories.node_root)
            return base::fail("belongs to another user, so the logs cannot be kept below it",
                              directories.node_root,
                              "choose a stdOutErrPathPrefix on a file system that all nodes share");
        context.claim_of_logs = TRY(node::claim_for_process(
            root, context.granted.job_id,
            std::filesystem::path(directories.job_temp).filename().string()));
    }
    TRY(context.logs.make());
    TRY(base::make_directories(directories.shared_job_temp));
    TRY(base::make_directories(context.files().node_logs()));
    for (const plan::OutputDirectory& output : context.plan.outputs) {
        // Guarded, so that nobody else can use a link to choose where the ranks write.
        if (output.create && !output.path_host.empty())
            TRY(base::make_guarded_directory(output.path_host));
    }
    return write_host_file(context);
}

// Nothing keeps another user of the node from listening on a port that is only reserved.
void warn_of_shared_nodes(const Context& context) {
    const auto& options = context.plan.allocation.options;
    const bool is_exclusive =
        std::any_of(options.begin(), options.end(),
                    [](const plan::SlurmOption& option) { return option.name == "exclusive"; });
    if (is_exclusive || !context.ports.ranks || context.main_step()->processes < 2) return;
    context.log.master(
        fmt::format("warning: other users may have jobs on these nodes, and could listen on "
                    "MASTER_PORT ({}) before rank 0 does. Scripts that load "
                    "mpi_bridge.torch_distributed do not use this port; others need --exclusive",
                    context.ports.ranks->number()));
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
    warn_of_shared_nodes(context);
    return {};
}

bool CleanUp::wanted(const Context& context) {
    return context.claim_of_logs.valid();
}

PhaseEnd CleanUp::run(Context& context) {
    const auto root = node::open_node_root(context.plan.directories.node_root);
    if (!root) return {};
    context.claim_of_logs = {};
    const auto released = node::end_claims_of_ended_processes(*root).and_then(
        [&] { return node::release(*root, context.granted.job_id, patience); });
    if (released && *released) return {};
    const std::string why =
        released
            ? fmt::format("data that could not be saved is kept in {} on this node", root->path)
            : released.error().text();
    std::fprintf(stderr, "batchai: warning: %s\n", why.c_str());
    return {.exit_code = 1};
}

void remove_what_killed_runs_left(const Context& context) {
    if (!are_on_this_node(context)) return;
    const auto root = node::open_node_root(context.plan.directories.node_root);
    if (root)
        node::remove_leftovers(*root, context.granted.job_id,
                               node::Trace(context.plan.directories.job_directory));
}

bool StoreLogs::wanted(const Context& context) {
    const auto place = context.plan.place_of(context.plan.directories.stdouterr);
    return place.mount != nullptr && place.mount->remote.has_value();
}

PhaseEnd StoreLogs::run(Context& context) {
    const std::string& logs = context.logs.path();
    context.log.collect_traces();
    const auto stored =
        node::store_on_volume(context.plan, logs, context.plan.directories.stdouterr);
    if (stored) return {};
    const std::string text = fmt::format("the logs stay in {}: {}", logs, stored.error().text());
    context.log.master(text);
    std::fprintf(stderr, "batchai: warning: %s\n", text.c_str());
    return {.exit_code = 1, .ending = {}};
}

}  // namespace batchai::run
