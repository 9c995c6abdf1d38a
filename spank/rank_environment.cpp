// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/rank_environment.hpp"

#include <array>
#include <cstdint>
#include <string>

#include "spank/protocol.h"
#include "spank/stepd.hpp"

namespace batchai::spank {

namespace {

constexpr std::size_t value_limit = 512;

struct RankVariable {
    const char* name;
    std::string value;  // empty: not known
};

std::string number_of(spank_t handle, spank_item_t item) {
    // S_TASK_ID is an int and the others are uint32_t; none of them is ever negative.
    uint32_t number = 0;
    if (spank_get_item(handle, item, &number) != ESPANK_SUCCESS) return {};
    return std::to_string(number);
}

std::array<RankVariable, 6> rank_variables(spank_t handle, const std::string& master) {
    const std::size_t space = master.find(' ');
    const bool known = space != std::string::npos;
    return {{{"RANK", number_of(handle, S_TASK_GLOBAL_ID)},
             {"LOCAL_RANK", number_of(handle, S_TASK_ID)},
             {"WORLD_SIZE", number_of(handle, S_JOB_TOTAL_TASK_COUNT)},
             {"LOCAL_WORLD_SIZE", number_of(handle, S_JOB_LOCAL_TASK_COUNT)},
             {"MASTER_ADDR", known ? master.substr(0, space) : std::string()},
             {"MASTER_PORT", known ? master.substr(space + 1) : std::string()}}};
}

bool is_the_users(spank_t handle, const char* name, const std::string& ours) {
    std::array<char, 2> probe{};
    if (spank_getenv(handle, name, probe.data(), probe.size()) == ESPANK_ENV_NOEXIST) return false;
    return !is_listed(ours, std::string(name) + '=' + job_variable(handle, name, value_limit));
}

}  // namespace

bool is_listed(std::string_view list, std::string_view entry) {
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        if (list.substr(0, comma) == entry) return true;
        if (comma == std::string_view::npos) return false;
        list.remove_prefix(comma + 1);
    }
    return false;
}

const char* set_rank_environment(spank_t handle) {
    const std::string inherited =
        job_variable(handle, BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_RANK_VARIABLES_LIMIT);
    const std::string master = job_variable(handle, BATCHAI_MASTER_VARIABLE, BATCHAI_MASTER_LIMIT);
    // The port is for this step only: an srun that one of its tasks starts needs its own.
    spank_unsetenv(handle, BATCHAI_MASTER_VARIABLE);
    std::string set;
    if (inherited != BATCHAI_NO_RANKS) {
        for (const RankVariable& variable : rank_variables(handle, master)) {
            if (is_the_users(handle, variable.name, inherited)) continue;
            if (variable.value.empty()) {
                spank_unsetenv(handle, variable.name);
                continue;
            }
            if (spank_setenv(handle, variable.name, variable.value.c_str(), 1) != ESPANK_SUCCESS)
                return variable.name;
            set += (set.empty() ? "" : ",") + (variable.name + ('=' + variable.value));
        }
    }
    const bool noted =
        spank_setenv(handle, BATCHAI_RANK_VARIABLES_VARIABLE, set.c_str(), 1) == ESPANK_SUCCESS;
    return noted ? nullptr : BATCHAI_RANK_VARIABLES_VARIABLE;
}

}  // namespace batchai::spank
