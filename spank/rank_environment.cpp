// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/rank_environment.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "spank/gpu_environment.hpp"
#include "spank/protocol.h"
#include "spank/stepd.hpp"
#include "spank/this_job.hpp"

namespace batchai::spank {

namespace {

// The longest value is a URL of an address in brackets and its port.
constexpr std::size_t value_limit = BATCHAI_MASTER_LIMIT + sizeof("tcp://[]");

struct RankVariable {
    const char* name;
    std::string value;  // empty: not known
};

// Where the ranks meet; both are empty if that is not known.
struct Master {
    std::string address;
    std::string port;
};

Master read_master(spank_t handle) {
    const std::string text = job_variable(handle, BATCHAI_MASTER_VARIABLE, BATCHAI_MASTER_LIMIT);
    const std::size_t space = text.find(' ');
    if (space == std::string::npos) return {};
    return {text.substr(0, space), text.substr(space + 1)};
}

std::string host_and_port(const Master& master) {
    if (master.address.empty()) return {};
    const bool is_ipv6 = master.address.find(':') != std::string::npos;
    return (is_ipv6 ? '[' + master.address + ']' : master.address) + ':' + master.port;
}

std::string number_of(spank_t handle, spank_item_t item) {
    // S_TASK_ID is an int and the others are uint32_t; none of them is ever negative.
    uint32_t number = 0;
    if (spank_get_item(handle, item, &number) != ESPANK_SUCCESS) return {};
    return std::to_string(number);
}

std::string step_name(spank_t handle) {
    const std::string job = number_of(handle, S_JOB_ID);
    const std::string step = number_of(handle, S_JOB_STEPID);
    return job.empty() || step.empty() ? std::string() : job + '.' + step;
}

// The numbers of a rank; each is empty if it is not known.
struct Numbers {
    std::string rank;
    std::string local_rank;
    std::string world_size;
    std::string local_world_size;
    std::string group_rank;
    std::string group_world_size;
};

Numbers numbers_of_task(spank_t handle) {
    return {.rank = number_of(handle, S_TASK_GLOBAL_ID),
            .local_rank = number_of(handle, S_TASK_ID),
            .world_size = number_of(handle, S_JOB_TOTAL_TASK_COUNT),
            .local_world_size = number_of(handle, S_JOB_LOCAL_TASK_COUNT),
            .group_rank = number_of(handle, S_JOB_NODEID),
            .group_world_size = number_of(handle, S_JOB_NNODES)};
}

// Reads BATCHAI_AS_RANK. A word that is not a number is left out.
Numbers numbers_in(std::string_view text) {
    Numbers numbers;
    for (std::string* const number :
         {&numbers.rank, &numbers.local_rank, &numbers.world_size, &numbers.local_world_size,
          &numbers.group_rank, &numbers.group_world_size}) {
        const std::string_view word = text.substr(0, text.find(' '));
        if (word.find_first_not_of("0123456789") == std::string_view::npos) *number = word;
        text.remove_prefix(std::min(word.size() + 1, text.size()));
    }
    return numbers;
}

// These variables are the whole of what init_process_group needs.
std::array<RankVariable, 6> world_variables(const Numbers& numbers, const Master& master) {
    return {{{"RANK", numbers.rank},
             {"LOCAL_RANK", numbers.local_rank},
             {"WORLD_SIZE", numbers.world_size},
             {"LOCAL_WORLD_SIZE", numbers.local_world_size},
             {"MASTER_ADDR", master.address},
             {"MASTER_PORT", master.port}}};
}

std::array<RankVariable, 7> further_variables(spank_t handle, const Numbers& numbers,
                                              const Master& master) {
    const std::string meeting = host_and_port(master);
    return {{{"GROUP_RANK", numbers.group_rank},
             {"GROUP_WORLD_SIZE", numbers.group_world_size},
             {"TORCHELASTIC_RESTART_COUNT", job_of_plan(handle).restarts},
             {"TORCHELASTIC_MAX_RESTARTS", "0"},
             {"JAX_COORDINATOR_ADDRESS", meeting},
             {"AZ_BATCHAI_TASK_INDEX", numbers.rank},
             {"AZ_BATCHAI_PYTORCH_INIT_METHOD", meeting.empty() ? meeting : "tcp://" + meeting}}};
}

// Returns whether `entry`, such as "NAME=value", is in the comma-separated `list`.
bool is_listed(std::string_view list, std::string_view entry) {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        if (list.substr(0, comma) == entry) return true;
        if (comma == std::string_view::npos) return false;
        list.remove_prefix(comma + 1);
    }
    return false;
}

bool is_the_users(spank_t handle, const char* name, const std::string& ours) {
    std::array<char, 2> probe{};
    if (spank_getenv(handle, name, probe.data(), probe.size()) == ESPANK_ENV_NOEXIST) return false;
    return !is_listed(ours, std::string(name) + '=' + job_variable(handle, name, value_limit));
}

// Sets the variables that the user has not set.
class RankEnvironment {
  public:
    // `inherited` lists what the plugin has set for an enclosing step.
    RankEnvironment(spank_t handle, std::string inherited)
        : handle_(handle), inherited_(std::move(inherited)) {}

    void set(const RankVariable& variable) {
        if (refused_ != nullptr || is_the_users(handle_, variable.name, inherited_)) return;
        if (variable.value.empty()) {
            spank_unsetenv(handle_, variable.name);
            return;
        }
        if (spank_setenv(handle_, variable.name, variable.value.c_str(), 1) != ESPANK_SUCCESS) {
            refused_ = variable.name;
            return;
        }
        list_ += (list_.empty() ? "" : ",") + entry_of(variable);
    }

    [[nodiscard]] bool has_set(const RankVariable& variable) const {
        return is_listed(list_, entry_of(variable));
    }

    // What was set, as BATCHAI_RANK_VARIABLES has it.
    [[nodiscard]] const std::string& list() const { return list_; }

    // The name of a variable that Slurm refused to set, or null.
    [[nodiscard]] const char* refused() const { return refused_; }

  private:
    static std::string entry_of(const RankVariable& variable) {
        return variable.name + ('=' + variable.value);
    }

    spank_t handle_;
    std::string inherited_;
    std::string list_;
    const char* refused_ = nullptr;
};

// `as_rank` is BATCHAI_AS_RANK, or empty.
void set_all(spank_t handle, const Master& master, const std::string& as_rank,
             RankEnvironment& environment) {
    const Numbers numbers = as_rank.empty() ? numbers_of_task(handle) : numbers_in(as_rank);
    const auto world = world_variables(numbers, master);
    for (const RankVariable& variable : world)
        environment.set(variable);
    for (const RankVariable& variable : further_variables(handle, numbers, master))
        environment.set(variable);
    // Otherwise JAX takes Slurm's local number of the task for that of its GPU
    // (jax/_src/clusters/slurm_cluster.py). "0" is right also where several tasks see the same one.
    environment.set({"JAX_LOCAL_DEVICE_IDS", sees_one_gpu(handle) ? "0" : std::string()});
    // A run id tells PyTorch and Lightning that torchrun has set the whole world, so a world that
    // is partly the user's gets none. A task that is alone has nobody to find, and Lightning would
    // no longer requeue its job as it does under Slurm.
    const bool is_whole =
        std::all_of(world.begin(), world.end(),
                    [&](const RankVariable& variable) { return environment.has_set(variable); });
    const bool is_alone = number_of(handle, S_JOB_TOTAL_TASK_COUNT) == "1";
    environment.set(
        {"TORCHELASTIC_RUN_ID", is_whole && !is_alone ? step_name(handle) : std::string()});
}

void set_nccl_interface(spank_t handle, RankEnvironment& environment) {
    const RankVariable variable{"NCCL_SOCKET_IFNAME", nccl_interface(handle)};
    environment.set(variable);
    const bool is_first_of_node = number_of(handle, S_TASK_ID) == "0";
    if (is_first_of_node && environment.has_set(variable)) {
        constexpr char remark = BATCHAI_CONTROL_NCCL;
        tell_node_program({&remark, 1});
    }
}

}  // namespace

const char* set_rank_environment(spank_t handle) {
    const std::string inherited =
        job_variable(handle, BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_RANK_VARIABLES_LIMIT);
    const Master master = read_master(handle);
    const std::string as_rank =
        job_variable(handle, BATCHAI_AS_RANK_VARIABLE, BATCHAI_AS_RANK_LIMIT);
    spank_unsetenv(handle, BATCHAI_AS_RANK_VARIABLE);
    // The port is for this step only: an srun that one of its tasks starts needs its own.
    spank_unsetenv(handle, BATCHAI_MASTER_VARIABLE);
    RankEnvironment environment(handle, inherited);
    if (inherited != BATCHAI_NO_RANKS) {
        set_all(handle, master, as_rank, environment);
        set_nccl_interface(handle, environment);
    }
    spank_unsetenv(handle, BATCHAI_NCCL_INTERFACE_VARIABLE);
    if (environment.refused() != nullptr) return environment.refused();
    const bool noted = spank_setenv(handle, BATCHAI_RANK_VARIABLES_VARIABLE,
                                    environment.list().c_str(), 1) == ESPANK_SUCCESS;
    return noted ? nullptr : BATCHAI_RANK_VARIABLES_VARIABLE;
}

}  // namespace batchai::spank
