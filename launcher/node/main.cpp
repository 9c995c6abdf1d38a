// SPDX-License-Identifier: GPL-2.0-or-later
// batchai-node: the part of the plugin that works as the user. Started by batchai.so; its messages
// go to the reply, or, where there is none, to stderr.

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.hpp"
#include "node/beneath.hpp"
#include "node/keeper/registry.hpp"
#include "node/reply.hpp"
#include "node/rootfs/container.hpp"
#include "node/sandbox.hpp"
#include "node/slurm_conf.hpp"
#include "node/trace.hpp"
#include "plan/array_task.hpp"
#include "record/job_files.hpp"
#include "site/site.hpp"
#include "spank/protocol.h"

namespace {

// The plugin has a deadline of its own; what is not removed by then goes with the next use.
constexpr std::chrono::minutes longest_flush{20};

struct Timeouts {
    int kill_seconds = 0;  // the plugin's, for our end after the step was killed; 0: not known
};

using batchai::base::Error;
using batchai::base::ExitCode;

int report(const Error& error) {
    fmt::print(stderr, "batchai-node: {}\n", error.text());
    return static_cast<int>(error.exit_code);
}

bool write_all(int descriptor, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

// True if the step was killed.
bool wait_for_end_of_step() {
    bool killed = false;
    char byte = 0;
    while (true) {
        const ssize_t count = read(BATCHAI_CONTROL_DESCRIPTOR, &byte, 1);
        if (count == 0 || (count < 0 && errno != EINTR)) return killed;
        if (count == 1 && byte == BATCHAI_CONTROL_KILLED) killed = true;
    }
}

// What the job wrote is to be in remote storage before the next step. Slurm does not wait for that
// when it kills a step: then for a part of what it does wait, and the rest is saved elsewhere.
void finish(batchai::node::Sandbox& made, const batchai::node::SandboxRequest& request,
            const Timeouts& timeouts, bool killed) {
    std::optional<std::chrono::seconds> at_most;
    if (killed) {
        const auto unkillable = batchai::node::unkillable_step_timeout(
            batchai::node::read_slurm_conf(request.slurm_conf));
        at_most =
            batchai::node::flush_of_killed(std::chrono::seconds(timeouts.kill_seconds), unkillable);
    }
    if (made.volumes) made.volumes->finish(at_most);
    if (!made.container || batchai::node::leave(*made.container, at_most)) return;
    batchai::record::JobFiles files(std::filesystem::path(request.plan_path).parent_path());
    if (const auto task = batchai::plan::array_task_number(request.array_task))
        files = files.array_task(*task);
    batchai::node::Trace(files.directory().string())
        .line("the step ends; the container's keeper goes on storing what the job wrote");
}

std::string build_reply(const batchai::node::SandboxRequest& request,
                        std::optional<batchai::node::Sandbox>& made) {
    try {
        auto sandbox = batchai::node::make_sandbox(request);
        if (!sandbox) return batchai::node::failure_reply(sandbox.error());
        made = std::move(*sandbox);
        return batchai::node::success_reply(
            {made->environment, made->unset, made->working_directory, made->one_id});
    } catch (const std::exception& error) {
        made.reset();
        return batchai::node::failure_reply(Error{error.what(), "batchai-node", {}, {}});
    }
}

int sandbox(const batchai::node::SandboxRequest& request, const Timeouts& timeouts) {
    for (const int descriptor :
         {BATCHAI_CONTROL_DESCRIPTOR, BATCHAI_READY_DESCRIPTOR, BATCHAI_REPLY_DESCRIPTOR}) {
        if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
            return report(
                {"is started by batchai.so, not by hand", "sandbox", {}, ExitCode::usage});
    }
    // Besides the control pipe: slurmstepd may be killed while a task still holds its copy.
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    umask(022);
    // Holds the port where the ranks meet, until the step is over.
    std::optional<batchai::node::Sandbox> made;
    const std::string reply = build_reply(request, made);
    // Only now: newuidmap, which may have been needed, is a set-user-id program.
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!write_all(BATCHAI_REPLY_DESCRIPTOR, reply) || !write_all(BATCHAI_READY_DESCRIPTOR, "r"))
        return static_cast<int>(ExitCode::failed);
    close(BATCHAI_READY_DESCRIPTOR);
    // The namespaces live as long as we do.
    if (made) {
        // What the job wrote is still to be saved when the job is cancelled.
        if (made->volumes || made->container) signal(SIGTERM, SIG_IGN);
        const bool killed = wait_for_end_of_step();
        finish(*made, request, timeouts, killed);
    }
    return static_cast<int>(made ? ExitCode::ok : ExitCode::failed);
}

int clean(const std::string& job_id, std::string node_directory) {
    if (node_directory.empty()) {
        const auto site = batchai::site::load_default();
        if (!site) return report(site.error());
        node_directory = site->node_directory;
    }
    const std::string path = fmt::format("{}/batchai-{}", node_directory, geteuid());
    // Most jobs are none of ours and leave nothing.
    if (access(path.c_str(), F_OK) != 0) return 0;
    const auto root = batchai::node::open_private_root(path);
    if (!root) return report(root.error());
    const auto released =
        batchai::node::prepare_to_remove_container(*root, job_id, longest_flush).and_then([&] {
            return batchai::node::release(*root, job_id);
        });
    return released ? 0 : report(released.error());
}

int run(int argc, char** argv) {
    CLI::App app("Works on a compute node for batchai.so, as the job's user", "batchai-node");
    app.require_subcommand(1);
    batchai::node::SandboxRequest request;
    auto* const sandbox_verb = app.add_subcommand("sandbox", "build the sandbox of one step");
    sandbox_verb->add_option("--plan", request.plan_path)->required();
    sandbox_verb->add_option("--digest", request.plan_digest)->required();
    sandbox_verb->add_option("--job-id", request.job_id)->required();
    sandbox_verb->add_option("--rendezvous", request.rendezvous_step,
                             "the step's name, if its ranks need a place to meet");
    sandbox_verb->add_option("--node", request.node)->check(CLI::NonNegativeNumber);
    sandbox_verb->add_option("--nodes", request.nodes)->check(CLI::PositiveNumber);
    sandbox_verb->add_flag("--root", request.as_root, "in a container: as root inside");
    sandbox_verb->add_option("--array-task", request.array_task);
    sandbox_verb->add_option("--submit-directory", request.submit_directory);
    sandbox_verb->add_option("--slurm-conf", request.slurm_conf);
    Timeouts timeouts;
    sandbox_verb->add_option("--kill-timeout", timeouts.kill_seconds)
        ->check(CLI::NonNegativeNumber);
    std::string job_id;
    std::string node_directory;
    auto* const clean_verb = app.add_subcommand("clean", "remove what a Slurm job left here");
    clean_verb->add_option("--job-id", job_id)->required();
    clean_verb->add_option("--node-directory", node_directory,
                           "instead of the node_directory of site.lua");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
    }
    return sandbox_verb->parsed() ? sandbox(request, timeouts) : clean(job_id, node_directory);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "batchai-node: %s\n", error.what());
        return static_cast<int>(ExitCode::failed);
    }
}
