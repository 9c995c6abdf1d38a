// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/stepd.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "spank/job_group.hpp"
#include "spank/job_note.hpp"
#include "spank/protocol.h"
#include "spank/this_job.hpp"

namespace batchai::spank {

namespace {

struct Pipe {
    int read_end = -1;
    int write_end = -1;
};

bool make_pipe(Pipe& made) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    made = Pipe{ends[0], ends[1]};
    return true;
}

void close_and_forget(int& descriptor) {
    if (descriptor >= 0) close(descriptor);
    descriptor = -1;
}

bool read_user(spank_t handle, User& user) {
    gid_t* groups = nullptr;
    int count = 0;
    if (spank_get_item(handle, S_JOB_UID, &user.uid) != ESPANK_SUCCESS) return false;
    if (spank_get_item(handle, S_JOB_GID, &user.gid) != ESPANK_SUCCESS) return false;
    if (spank_get_item(handle, S_JOB_SUPPLEMENTARY_GIDS, &groups, &count) != ESPANK_SUCCESS)
        return false;
    user.groups = groups;
    user.group_count = count < 0 ? 0 : static_cast<std::size_t>(count);
    return true;
}

// `batchai run` has said where the ranks of its steps meet.
bool add_master(spank_t handle, std::vector<std::string>& arguments) {
    const std::string master = job_variable(handle, BATCHAI_MASTER_VARIABLE, BATCHAI_MASTER_LIMIT);
    if (master.empty()) return false;
    // As one word, so that no value looks like an option.
    arguments.push_back("--master=" + master.substr(0, master.find(' ')));
    return true;
}

// Asks for a place to meet, unless `batchai run` has said that there are no ranks.
bool add_rendezvous(spank_t handle, uint32_t job_id, std::vector<std::string>& arguments) {
    const std::string told =
        job_variable(handle, BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_RANK_VARIABLES_LIMIT);
    // A task that looks at a rank of another step meets nobody.
    std::array<char, 2> probe{};
    const bool looks_at_a_rank = spank_getenv(handle, BATCHAI_AS_RANK_VARIABLE, probe.data(),
                                              probe.size()) != ESPANK_ENV_NOEXIST;
    if (told == BATCHAI_NO_RANKS || looks_at_a_rank) return false;
    uint32_t step = 0;
    if (spank_get_item(handle, S_JOB_STEPID, &step) != ESPANK_SUCCESS) return false;
    // A requeued job keeps its number and counts its steps from 0 again, so the step's name
    // includes the restart count.
    arguments.insert(arguments.end(),
                     {"--rendezvous", std::to_string(job_id) + '.' + job_of_plan(handle).restarts +
                                          '.' + std::to_string(step)});
    return true;
}

// Adds what batchai-node needs to make the job's container, besides the plan. The values are the
// user's: batchai-node does nothing with them that the user could not do.
void add_places(spank_t handle, std::vector<std::string>& arguments) {
    if (job_variable(handle, BATCHAI_IDENTITY_VARIABLE, 16) == BATCHAI_IDENTITY_ROOT)
        arguments.emplace_back("--root");
    const std::string task = job_of_plan(handle).array_task;
    if (!task.empty()) arguments.insert(arguments.end(), {"--array-task", task});
    // SLURM_SUBMIT_DIR would be the allocation's.
    if (const std::string directory = start_directory(handle); !directory.empty())
        arguments.push_back("--submit-directory=" + directory);
    // slurmd has set this in the environment of slurmstepd.
    if (const char* const file = getenv("SLURM_CONF"))
        arguments.insert(arguments.end(), {"--slurm-conf", file});
}

// `batchai run` wants to know what the step uses.
void add_usage(spank_t handle, std::vector<std::string>& arguments) {
    const std::string name = job_variable(handle, BATCHAI_USAGE_VARIABLE, BATCHAI_USAGE_LIMIT);
    uint32_t step = 0;
    if (name.empty() || spank_get_item(handle, S_JOB_STEPID, &step) != ESPANK_SUCCESS) return;
    // As one word, so that no value looks like an option.
    arguments.insert(arguments.end(), {"--usage=" + name, "--step", std::to_string(step)});
}

// `batchai run` wants to know which tasks have started.
bool add_starts(spank_t handle, std::vector<std::string>& arguments) {
    const std::string name = job_variable(handle, BATCHAI_STARTS_VARIABLE, BATCHAI_STARTS_LIMIT);
    if (name.empty()) return false;
    // As one word, so that no value looks like an option.
    arguments.insert(arguments.end(),
                     {"--starts=" + name, "--tasks", std::to_string(sandbox().tasks_left)});
    return true;
}

// Adds what depends on where among the nodes of the step this one is.
void add_place_in_step(spank_t handle, uint32_t job_id, std::vector<std::string>& arguments) {
    uint32_t node = 0;
    uint32_t nodes = 0;
    const bool known = spank_get_item(handle, S_JOB_NODEID, &node) == ESPANK_SUCCESS &&
                       spank_get_item(handle, S_JOB_NNODES, &nodes) == ESPANK_SUCCESS && nodes > 0;
    const bool has_master = add_master(handle, arguments);
    if (!known) return;
    const bool meets = !has_master && add_rendezvous(handle, job_id, arguments);
    const bool notes = add_starts(handle, arguments);
    if (!meets && !notes) return;
    arguments.insert(arguments.end(),
                     {"--node", std::to_string(node), "--nodes", std::to_string(nodes)});
}

// Adds what Slurm calls this node, which may not be the host's name. slurmd has it in its own
// environment, and srun has set the list of the step's nodes. In the environment of the tasks,
// SLURMD_NODENAME is not set yet: in user_init it names the node from which the step was started.
void add_node_name(spank_t handle, std::vector<std::string>& environment) {
    if (const char* const name = getenv("SLURMD_NODENAME"))
        environment.push_back(std::string("SLURMD_NODENAME=") + name);
    uint32_t node = 0;
    uint32_t nodes = 0;
    const std::string list = job_variable(handle, "SLURM_STEP_NODELIST", BATCHAI_NODE_LIST_LIMIT);
    if (list.empty() || spank_get_item(handle, S_JOB_NODEID, &node) != ESPANK_SUCCESS ||
        spank_get_item(handle, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS)
        return;
    environment.push_back(BATCHAI_NODE_VARIABLE "=" + std::to_string(node) + ' ' +
                          std::to_string(nodes) + ' ' + list);
}

Program node_program(spank_t handle, const Settings& settings, const std::string& plan) {
    uint32_t job_id = 0;
    if (spank_get_item(handle, S_JOB_ID, &job_id) != ESPANK_SUCCESS) job_id = 0;
    Program program;
    program.arguments = {
        settings.node_program, "sandbox", "--plan", plan, "--digest", sandbox().digest, "--job-id",
        std::to_string(job_id)};
    add_place_in_step(handle, job_id, program.arguments);
    add_places(handle, program.arguments);
    add_usage(handle, program.arguments);
    // The program gets none of the job's own environment.
    program.environment = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"};
    add_node_name(handle, program.environment);
    program.group = helper_group(settings.runtime_directory, job_id);
    return program;
}

void start_anchor(spank_t handle, const Settings& settings, const std::string& plan) {
    Sandbox& state = sandbox();
    const auto failed = [&](const char* what) {
        state.failure = std::string(what) + ": " + strerror(errno);
    };
    User user;
    if (!read_user(handle, user)) {
        state.failure = "Slurm does not say who the job's user is";
        return;
    }
    Pipe control;
    Pipe ready;
    state.reply = memfd_create("batchai-reply", MFD_CLOEXEC);
    if (state.reply < 0 || !make_pipe(control) || !make_pipe(ready)) {
        failed("cannot make a pipe to batchai-node");
        for (int* descriptor : {&control.read_end, &control.write_end})
            close_and_forget(*descriptor);
        return;
    }
    state.control = control.write_end;
    Program program = node_program(handle, settings, plan);
    program.descriptors = {control.read_end, ready.write_end, state.reply};
    program.reply = state.reply;
    state.group = program.group;
    const bool started = start_as_user(program, user, state.anchor);
    if (!started) failed("cannot start batchai-node");
    close_and_forget(control.read_end);
    close_and_forget(ready.write_end);
    // The tasks wait for a byte or the end of this pipe. The reply, which only they read, says what
    // it means.
    state.ready = ready.read_end;
    state.timeout_seconds = settings.timeout_seconds;
}

bool wants_sandbox(spank_t handle) {
    if (job_variable(handle, BATCHAI_DISABLE_VARIABLE, 8) == "1") return false;
    std::array<char, 2> probe{};
    return spank_getenv(handle, BATCHAI_PLAN_VARIABLE, probe.data(), probe.size()) !=
           ESPANK_ENV_NOEXIST;
}

void end_sandbox() {
    Sandbox& state = sandbox();
    // A batchai-node that has made nothing yet has nothing to finish.
    const bool made = state.ready >= 0 && wait_readable(state.ready, 0);
    close_and_forget(state.control);
    close_and_forget(state.ready);
    end_child(state.anchor, made ? farewell_seconds : seconds_to_die);
}

}  // namespace

Sandbox& sandbox() {
    // Never destroyed, because hooks may run while the process ends.
    static Sandbox* const value = new Sandbox;
    return *value;
}

bool step_is_ours(spank_t handle) {
    uint32_t step = batch_step;
    if (spank_get_item(handle, S_JOB_STEPID, &step) != ESPANK_SUCCESS) return false;
    return step != batch_step && step != extern_step;
}

std::string job_variable(spank_t handle, const char* name, std::size_t limit) {
    std::string value(limit + 1, '\0');
    if (spank_getenv(handle, name, value.data(), static_cast<int>(value.size())) != ESPANK_SUCCESS)
        return {};
    value.resize(strlen(value.c_str()));
    return value;
}

std::string start_directory(spank_t handle) {
    std::string told = job_variable(handle, BATCHAI_DIRECTORY_VARIABLE, BATCHAI_PATH_LIMIT);
    if (!told.empty()) return told;
    std::array<char, BATCHAI_PATH_LIMIT> directory{};
    return getcwd(directory.data(), directory.size()) == nullptr ? std::string() : directory.data();
}

void remember_job(spank_t handle, const Settings& settings) {
    settle_job(handle);
    const bool cleans_up = job_variable(handle, BATCHAI_CLEAN_UP_VARIABLE, 8) == "1";
    // What the script submits is not to have it.
    if (cleans_up) spank_unsetenv(handle, BATCHAI_CLEAN_UP_VARIABLE);
    if (!wants_sandbox(handle) && !cleans_up) return;
    uint32_t job_id = 0;
    if (spank_get_item(handle, S_JOB_ID, &job_id) != ESPANK_SUCCESS) return;
    if (note_job(settings.runtime_directory, job_id)) return;
    slurm_error("batchai: cannot note job %u in %s: %s; its epilog will not clean up", job_id,
                settings.runtime_directory.c_str(), strerror(errno));
}

void start_sandbox(spank_t handle, const Settings& settings) {
    if (!step_is_ours(handle) || !wants_sandbox(handle)) return;
    Sandbox& state = sandbox();
    state.wanted = true;
    uint32_t tasks = 1;
    if (spank_get_item(handle, S_JOB_LOCAL_TASK_COUNT, &tasks) != ESPANK_SUCCESS) tasks = 1;
    state.tasks_left = tasks;
    const std::string plan = job_variable(handle, BATCHAI_PLAN_VARIABLE, BATCHAI_PATH_LIMIT);
    state.digest = job_variable(handle, BATCHAI_DIGEST_VARIABLE, BATCHAI_DIGEST_LENGTH);
    const bool digest_ok = state.digest.size() == BATCHAI_DIGEST_LENGTH &&
                           state.digest.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!plan.starts_with('/') || !digest_ok) {
        state.failure =
            "BATCHAI_PLAN and BATCHAI_PLAN_DIGEST in the job's environment are not "
            "what batchai put there";
        return;
    }
    start_anchor(handle, settings, plan);
}

void tell_node_program(std::string_view remark) {
    const int control = sandbox().control;
    if (control < 0) return;
    // If batchai-node has ended, the remark is lost. The signal would end the task.
    struct sigaction ignore = {};
    struct sigaction before = {};
    ignore.sa_handler = SIG_IGN;
    if (sigaction(SIGPIPE, &ignore, &before) != 0) return;
    // A pipe takes so few bytes together.
    if (write(control, remark.data(), remark.size()) < 0) {
        // Best effort.
    }
    sigaction(SIGPIPE, &before, nullptr);
}

void task_ended() {
    Sandbox& state = sandbox();
    if (state.tasks_left > 0 && --state.tasks_left == 0) end_sandbox();
}

void leave_step() {
    end_sandbox();
    if (!sandbox().group.path.empty()) leave_group(sandbox().group);
}

}  // namespace batchai::spank
