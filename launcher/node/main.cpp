// SPDX-License-Identifier: GPL-2.0-or-later
// batchai-node, the part of the plugin that runs as the user. batchai.so starts it. Its messages go
// into the reply to batchai.so, or to stderr if there is no reply.

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
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
#include <sys/wait.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "node/health.hpp"
#include "node/keeper/leftovers.hpp"
#include "node/keeper/registry.hpp"
#include "node/node_root.hpp"
#include "node/reply.hpp"
#include "node/rootfs/container.hpp"
#include "node/sandbox.hpp"
#include "node/stacks/look.hpp"
#include "node/volumes/flush.hpp"
#include "node/volumes/unsaved.hpp"
#include "plan/relocate.hpp"
#include "record/job_files.hpp"
#include "record/task_reports.hpp"
#include "site/site.hpp"
#include "spank/protocol.h"
#include "visit/relay/tunnel.hpp"
#include "visit/stacks/answer.hpp"

namespace {

// After a job, the clean-up waits at most this long until remote storage has what the job wrote.
constexpr std::chrono::minutes longest_flush{20};
constexpr std::chrono::seconds farewell{BATCHAI_FAREWELL_SECONDS};

using batchai::base::Child;
using batchai::base::Error;
using batchai::base::ExitCode;
using batchai::base::write_all;

int report(const Error& error) {
    batchai::base::print_error("batchai-node: {}\n", error.text());
    return static_cast<int>(error.exit_code);
}

// Reads as many bytes from CONTROL as `bytes` has room for. Returns false at the end of the step.
bool read_remark(void* bytes, std::size_t length) {
    auto* to = static_cast<char*>(bytes);
    while (length > 0) {
        const ssize_t count = read(BATCHAI_CONTROL_DESCRIPTOR, to, length);
        if (count == 0 || (count < 0 && errno != EINTR)) return false;
        if (count < 0) continue;
        to += count;
        length -= static_cast<std::size_t>(count);
    }
    return true;
}

void wait_for_end_of_step(batchai::node::Sandbox& made) {
    char remark = 0;
    while (read_remark(&remark, 1)) {
        std::uint32_t task = 0;
        if (remark == BATCHAI_CONTROL_NCCL && made.say_nccl_interface) {
            made.say_nccl_interface();
        } else if (remark == BATCHAI_CONTROL_STARTED && read_remark(&task, sizeof task) &&
                   made.starts) {
            made.starts->started(task);
        }
    }
}

// Stores on remote storage what the job wrote, before the next step starts, if that takes only a
// moment. Root's slurmstepd waits for this process, so longer work is left to the processes that
// store the data. They go on alone and belong to no step, and the storage note reports them.
void finish(batchai::node::Sandbox& made, const batchai::node::SandboxRequest& request) {
    const bool stored = !made.volumes || made.volumes->finish(farewell);
    const bool left = !made.container || batchai::node::leave(*made.container, farewell);
    if (stored && left) return;
    batchai::record::JobFiles files(std::filesystem::path(request.plan_path).parent_path());
    if (const auto task = batchai::plan::array_task_number(request.array_task))
        files = files.array_task(*task);
    batchai::node::Trace(files.directory().string())
        .line("the step ends; what the job wrote is still being stored");
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
        return batchai::node::failure_reply(Error{error.what(), "batchai-node", {}});
    }
}

int sandbox(const batchai::node::SandboxRequest& request) {
    for (const int descriptor :
         {BATCHAI_CONTROL_DESCRIPTOR, BATCHAI_READY_DESCRIPTOR, BATCHAI_REPLY_DESCRIPTOR}) {
        if (fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0)
            return report(
                {"is started by batchai.so, not by hand", "sandbox", {}, ExitCode::usage});
    }
    // This process must end with slurmstepd. The end of the control pipe is not enough for that,
    // because a task may still hold a copy of the pipe's write end when slurmstepd is killed.
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    umask(022);
    // Holds the ranks' rendezvous port, the mounts and the connection to the container until the
    // step is over.
    std::optional<batchai::node::Sandbox> made;
    const std::string reply = build_reply(request, made);
    // This comes after build_reply, which may have had to run newuidmap, a set-user-id program.
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!write_all(BATCHAI_REPLY_DESCRIPTOR, reply) || !write_all(BATCHAI_READY_DESCRIPTOR, "r"))
        return static_cast<int>(ExitCode::failed);
    close(BATCHAI_READY_DESCRIPTOR);
    // The namespaces exist as long as this process.
    if (made) {
        // Even if the job is cancelled, what it wrote must still be saved.
        if (made->volumes || made->container) signal(SIGTERM, SIG_IGN);
        wait_for_end_of_step(*made);
        if (made->sampler) made->sampler->end();
        if (made->note) made->note->end();
        finish(*made, request);
    }
    return static_cast<int>(made ? ExitCode::ok : ExitCode::failed);
}

int exit_code_of(int wait_status) {
    return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : static_cast<int>(ExitCode::failed);
}

// Removes everything that belongs to the job below one of the user's directories, except data that
// could not be saved. Then tries again to save what clean-ups after other jobs have kept.
int clean_below(const batchai::base::Root& root, const std::string& job_id) {
    const auto all_saved =
        batchai::node::prepare_to_remove_container(root, job_id, longest_flush).and_then([&] {
            return batchai::node::release(root, job_id, longest_flush);
        });
    batchai::node::save_kept(root, job_id);
    if (!all_saved) return report(all_saved.error());
    return *all_saved ? 0 : BATCHAI_CLEAN_KEPT_DATA;
}

// Cleans up each of the user's directories in a child process of its own, because a process cannot
// leave a user namespace again. Before that, it records in the directory which of its contents
// belong to the run of the job that has ended: the job may be requeued, and a new run may use the
// directory during the clean-up.
int clean_all(const std::vector<batchai::base::Root>& roots, const std::string& job_id) {
    setsid();
    int code = 0;
    for (const batchai::base::Root& root : roots) {
        const auto noted = batchai::node::note_end_of_job(root, job_id);
        if (!noted) {
            code = report(noted.error());
            continue;
        }
        // Even if this job has claimed nothing, an earlier clean-up may have failed.
        auto child = Child::fork([&] { return clean_below(root, job_id); });
        const int ended = child ? exit_code_of(child->wait()) : static_cast<int>(ExitCode::failed);
        if (ended != 0 && code != BATCHAI_CLEAN_KEPT_DATA) code = ended;
    }
    return code;
}

// The epilog waits for this process, so it must not take long. A child process in a session of its
// own does the work. It goes on alone if remote storage, or a lock that another process of the user
// holds, takes longer.
// With `wait` it does not: what a job's step leaves behind is killed with the step, so whoever runs
// this in a step sets the deadline.
int clean(const std::string& job_id, std::string node_directory, bool wait) {
    int code = 0;
    if (node_directory.empty()) {
        const auto site = batchai::site::load_default();
        // A mistake in site.lua is no reason to clean up nothing.
        if (!site) code = report(site.error());
        node_directory = site.value_or(batchai::site::Site()).node_directory;
    }
    const auto roots = batchai::node::find_node_roots(node_directory);
    if (roots.empty()) return code;
    auto worker = Child::fork([&] { return clean_all(roots, job_id); });
    if (!worker) return report(worker.error());
    const auto status = wait ? std::optional(worker->wait())
                             : worker->ended_by(batchai::node::Clock::now() + farewell);
    if (!wait) worker->release();
    const int ended = exit_code_of(status.value_or(0));
    return ended != 0 ? ended : code;
}

// The task of the phase "health".
int health(const batchai::node::HealthRequest& request, const std::string& report_path) {
    const auto task = batchai::base::number_in<int>(
        batchai::base::variable("SLURM_PROCID").value_or(std::string()));
    if (!task) return report({"is not a task of a step", "health", {}, ExitCode::usage});
    const auto found = batchai::node::check_health(request);
    const auto written = batchai::record::write_health_report(report_path, *task, found);
    batchai::node::tell_syslog(found);
    return written ? 0 : report(written.error());
}

// The node's side of `batchai job port`. Its standard input and output lead to the command.
int relay() {
    signal(SIGPIPE, SIG_IGN);
    const auto served = batchai::visit::serve_node(STDIN_FILENO, STDOUT_FILENO);
    return served ? 0 : report(served.error());
}

// The node's side of `batchai job stacks`.
int stacks(batchai::node::StacksQuestion question) {
    signal(SIGPIPE, SIG_IGN);
    question.own_step = batchai::base::variable("SLURM_STEP_ID").value_or(std::string());
    const auto answer = batchai::node::look_at_stacks(question);
    return write_all(STDOUT_FILENO, batchai::visit::answer_lines(answer))
               ? 0
               : static_cast<int>(ExitCode::failed);
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
    sandbox_verb->add_option("--master", request.master,
                             "where the ranks meet, if that has been arranged");
    sandbox_verb->add_option("--node", request.node)->check(CLI::NonNegativeNumber);
    sandbox_verb->add_option("--nodes", request.nodes)->check(CLI::PositiveNumber);
    sandbox_verb->add_flag("--root", request.as_root, "in a container: as root inside");
    sandbox_verb->add_option("--array-task", request.array_task);
    sandbox_verb->add_option("--submit-directory", request.submit_directory);
    sandbox_verb->add_option("--slurm-conf", request.slurm_conf);
    sandbox_verb->add_option("--usage", request.usage_step,
                             "name of the files of what the step uses");
    sandbox_verb->add_option("--starts", request.starts,
                             "name of the note of the tasks that start");
    sandbox_verb->add_option("--tasks", request.tasks, "of the step on this node");
    sandbox_verb->add_option("--step", request.slurm_step)->check(CLI::NonNegativeNumber);
    std::string job_id;
    std::string node_directory;
    auto* const clean_verb = app.add_subcommand("clean", "remove what a Slurm job left here");
    clean_verb->add_option("--job-id", job_id)->required();
    clean_verb->add_option("--node-directory", node_directory,
                           "instead of the node_directory of site.lua");
    bool wait = false;
    clean_verb->add_flag("--wait", wait, "end only when everything is removed");
    batchai::node::HealthRequest checks;
    std::string report_path;
    auto* const health_verb =
        app.add_subcommand("health", "run the site's checks of this node, for one step");
    health_verb->add_option("--directory", checks.directory)->required();
    health_verb->add_option("--time-limit", checks.time_limit_seconds)->check(CLI::PositiveNumber);
    health_verb->add_option("--total-time-limit", checks.total_seconds)->check(CLI::PositiveNumber);
    health_verb->add_option("--report", report_path)->required();
    const auto* const relay_verb =
        app.add_subcommand("relay", "connect a command on another host to ports of this one");
    auto* const stacks_verb =
        app.add_subcommand("stacks", "tell a command on another host what a job's processes do");
    batchai::node::StacksQuestion question;
    stacks_verb->add_option("--job-id", question.job_id)->required();
    stacks_verb->add_flag("--threads", question.all_threads, "of all threads");
    stacks_verb->add_flag("--native", question.native, "of C and C++ in all processes");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::usage);
    }
    if (relay_verb->parsed()) return relay();
    if (stacks_verb->parsed()) return stacks(question);
    if (health_verb->parsed()) return health(checks, report_path);
    return sandbox_verb->parsed() ? sandbox(request) : clean(job_id, node_directory, wait);
}

}  // namespace

int main(int argc, char** argv) {
    // What cannot be noted because of the user's limit of a file's size must not end the step.
    signal(SIGXFSZ, SIG_IGN);
    try {
        return run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "batchai-node: %s\n", error.what());
        return static_cast<int>(ExitCode::failed);
    }
}
