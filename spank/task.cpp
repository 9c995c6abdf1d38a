// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "mpi_bridge/core/settle.hpp"
#include "spank/gpu_environment.hpp"
#include "spank/hooks.hpp"
#include "spank/one_id.hpp"
#include "spank/options.hpp"
#include "spank/protocol.h"
#include "spank/rank_environment.hpp"
#include "spank/reply.hpp"
#include "spank/stepd.hpp"

namespace batchai::spank {

namespace {

std::string node_name(spank_t handle) {
    std::string name = job_variable(handle, "SLURMD_NODENAME", 256);
    if (!name.empty()) return name;
    std::array<char, 256> host{};
    if (gethostname(host.data(), host.size() - 1) != 0) return "?";
    return host.data();
}

void say(spank_t handle, const std::string& text) {
    // Writes straight to the task's standard error, because Slurm's own log functions add
    // "slurmstepd: error:" and depend on the admin's log level.
    const std::string line = "batchai: node " + node_name(handle) + ": " + text + '\n';
    if (write(STDERR_FILENO, line.data(), line.size()) < 0) {
        // Best effort: standard error may be closed.
    }
}

// Best effort. This process already runs as the user, so the path gives access to nothing that the
// user could not write anyway.
void report(spank_t handle, const std::string& text) {
    const std::string path = job_variable(handle, BATCHAI_REFUSALS_VARIABLE, PATH_MAX);
    if (path.empty()) return;
    const std::string own = path + '.' + job_variable(handle, "SLURM_PROCID", 16) + ".txt";
    const int file =
        open(own.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return;
    if (write(file, text.data(), text.size()) < 0) {
        // Best effort: the message is on standard error, too.
    }
    close(file);
}

[[noreturn]] void refuse(spank_t handle, const std::string& text) {
    say(handle, text);
    report(handle, text);
    _exit(1);
}

void refuse_without_marker(spank_t handle) {
    if (!job_json_was_given(handle)) return;
    if (job_variable(handle, BATCHAI_DISABLE_VARIABLE, 8) == "1")
        refuse(handle,
               "--job-json was given, but BATCHAI_DISABLE=1 is in the job's environment; the "
               "task is not run without its mounts\nhint: unset BATCHAI_DISABLE and submit again");
    if (const std::string& other = sandbox().foreign_job; !other.empty())
        refuse(handle, "--job-json was given, but the plan in the environment is that of job " +
                           other +
                           ", so the task is not run\nhint: to start a step of another job, call "
                           "srun from outside of a job");
    refuse(handle,
           "--job-json was given, but the plan did not reach this node, so the task is not run "
           "without its mounts and environment\nhint: with --export=NONE or a list, also export "
           "BATCHAI_PLAN, BATCHAI_PLAN_DIGEST and BATCHAI_SLURM_JOB (--export=ALL does)");
}

bool is_first_of_node(spank_t handle) {
    return job_variable(handle, "SLURM_LOCALID", 16) == "0";
}

// setns() takes us to the root of the new mount namespace. Goes on from there to the directory that
// the image wants, else back to the one where Slurm put the task.
void go_to(spank_t handle, const std::string& wanted, const std::string& before) {
    const std::string& directory = wanted.empty() ? before : wanted;
    if (directory.empty() || chdir(directory.c_str()) == 0) return;
    const std::string why = strerror(errno);
    if (is_first_of_node(handle))
        say(handle, "warning: the working directory " + directory +
                        " cannot be entered inside the sandbox: " + why + "; the task starts in /");
    if (chdir("/") != 0) refuse(handle, "cannot enter /");
}

void join(spank_t handle, int anchor, const std::string& wanted_directory) {
    const std::string before = start_directory(handle);
    spank_unsetenv(handle, BATCHAI_DIRECTORY_VARIABLE);
    // Both are joined in one call: the user namespace can be the inner one of a container, which
    // has no rights over the mount namespace, because that belongs to the outer one.
    if (setns(anchor, CLONE_NEWUSER | CLONE_NEWNS) != 0)
        refuse(handle, std::string("cannot join the job's namespaces: ") + strerror(errno) +
                           "\nhint: the sandbox may have been killed, or user namespaces are not "
                           "allowed here (sysctl user.max_user_namespaces)");
    go_to(handle, wanted_directory, before);
}

// Without this warning, the program would only say that PMIx_Init failed.
void check_pmix_directory(spank_t handle) {
    const std::string directory = job_variable(handle, "PMIX_SERVER_TMPDIR", PATH_MAX);
    if (directory.empty() || access(directory.c_str(), X_OK) == 0 || !is_first_of_node(handle))
        return;
    say(handle, "warning: PMIx's directory " + directory +
                    " cannot be reached in the job's container: " + strerror(errno) +
                    "; ranks will not find each other\nhint: batchai-node looks for SlurmdSpoolDir "
                    "in /etc/slurm/slurm.conf or where slurmd's SLURM_CONF leads");
}

// Waits for PMIx on the other nodes, because the ranks of any program may start with a fence.
void settle_pmix(spank_t handle) {
    if (!pmix_has_to_settle) return;
    uint32_t nodes = 1;
    if (spank_get_item(handle, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS || nodes < 2) return;
    if (!job_variable(handle, "PMIX_SERVER_TMPDIR", PATH_MAX).empty())
        mpi_bridge::let_slurm_settle(mpi_bridge::before_program);
}

void set(spank_t handle, const std::string& name, const std::string& value) {
    if (spank_setenv(handle, name.c_str(), value.c_str(), 1) == ESPANK_SUCCESS) return;
    refuse(handle, "Slurm refused to set the variable " + name);
}

void unset(spank_t handle, const std::string& name) {
    std::array<char, 1> probe{};
    // Slurm reports an error for the removal of a variable that is not set.
    if (spank_getenv(handle, name.c_str(), probe.data(), probe.size()) == ESPANK_ENV_NOEXIST)
        return;
    if (spank_unsetenv(handle, name.c_str()) == ESPANK_SUCCESS) return;
    refuse(handle, "Slurm refused to remove the variable " + name);
}

// Puts the directory with the hook of `batchai job stacks` first, so that each Python of the task
// runs it at its start. What the user has set follows. Nothing is changed that does not fit.
void set_python_hook(spank_t handle) {
    const std::string directory = job_variable(handle, BATCHAI_PYTHON_HOOK_VARIABLE, PATH_MAX);
    unset(handle, BATCHAI_PYTHON_HOOK_VARIABLE);
    if (directory.empty()) return;
    std::string before(BATCHAI_PYTHON_PATH_LIMIT, '\0');
    const spank_err_t got =
        spank_getenv(handle, "PYTHONPATH", before.data(), static_cast<int>(before.size()));
    if (got != ESPANK_SUCCESS && got != ESPANK_ENV_NOEXIST) return;
    before.resize(got == ESPANK_SUCCESS ? strlen(before.c_str()) : 0);
    // A step that a rank has started has it from there.
    if (before == directory || before.starts_with(directory + ':')) return;
    set(handle, "PYTHONPATH", before.empty() ? directory : directory + ':' + before);
}

void set_environment(spank_t handle, const Reply& reply) {
    for (const std::string& entry : reply.environment) {
        const std::size_t sign = entry.find('=');
        if (sign != std::string::npos)
            set(handle, entry.substr(0, sign), entry.substr(sign + 1));
        else
            unset(handle, entry);
    }
    set(handle, "AZ_BATCHAI_NUM_GPUS", std::to_string(gpus_of_step(handle)));
    set(handle, "AZ_BATCH_NODE_ID", node_name(handle));
    set(handle, BATCHAI_PROOF_VARIABLE, sandbox().digest);
    unset(handle, BATCHAI_STARTS_VARIABLE);
    set_python_hook(handle);
    if (const char* const refused = set_rank_environment(handle))
        refuse(handle, std::string("Slurm refused to set the variable ") + refused);
}

void say_started(spank_t handle) {
    uint32_t task = 0;
    if (spank_get_item(handle, S_TASK_GLOBAL_ID, &task) != ESPANK_SUCCESS) return;
    std::array<char, 1 + sizeof task> remark{BATCHAI_CONTROL_STARTED};
    memcpy(remark.data() + 1, &task, sizeof task);
    tell_node_program({remark.data(), remark.size()});
}

}  // namespace

void join_sandbox(spank_t handle) {
    if (!step_is_ours(handle)) return;
    const Sandbox& state = sandbox();
    if (!state.wanted) {
        refuse_without_marker(handle);
        return;
    }
    if (!state.failure.empty()) refuse(handle, state.failure);
    if (!wait_readable(state.ready, state.timeout_seconds))
        refuse(handle, "the sandbox was not ready after " + std::to_string(state.timeout_seconds) +
                           " s (does a file system hang? the admin can raise timeout= in "
                           "plugstack.conf)");
    const std::string bytes = read_reply(state.reply);
    if (bytes.empty())
        refuse(handle,
               "batchai-node ended without a message: the step was ended while it started, or "
               "batchai-node is not installed on this node in the same version as batchai.so");
    const std::optional<Reply> reply = parse_reply(bytes);
    if (!reply)
        refuse(handle,
               "batchai-node and batchai.so have different versions; install both "
               "from one version");
    if (!reply->ok) refuse(handle, reply->text);
    join(handle, state.anchor.handle, reply->text);
    check_pmix_directory(handle);
    if (reply->one_id && !answer_id_changes())
        refuse(handle, std::string("the kernel refuses a seccomp filter: ") + strerror(errno));
    set_environment(handle, *reply);
    settle_pmix(handle);
    say_started(handle);
}

}  // namespace batchai::spank
