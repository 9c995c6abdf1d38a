// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/this_job.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "spank/protocol.h"
#include "spank/stepd.hpp"

namespace batchai::spank {

namespace {

constexpr std::size_t longest_number = 10;
// Our parts set some fifty, and two for each input and output of the job file. Slurm searches the
// whole environment for each that is removed, as root.
constexpr std::size_t most_variables = 1000;
// Slurm's word for "no task".
constexpr std::uint32_t no_value = 0xfffffffeU;

bool is_number(std::string_view text) {
    return !text.empty() && text.size() <= longest_number &&
           text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Returns the text up to the next blank, and removes it and the blank.
std::string_view take_word(std::string_view& text) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    return word;
}

std::string_view name_of(std::string_view entry) {
    return entry.substr(0, entry.find('='));
}

template <std::size_t Count>
bool is_one_of(std::string_view name, const std::array<std::string_view, Count>& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr auto signs = std::to_array<std::string_view>({BATCHAI_SIGNS_OF_A_JOB});
constexpr auto variables = std::to_array<std::string_view>({BATCHAI_VARIABLES_OF_ONE_JOB});

bool is_set(spank_t handle, const char* name) {
    std::array<char, 1> probe{};
    return spank_getenv(handle, name, probe.data(), probe.size()) != ESPANK_ENV_NOEXIST;
}

// What slurmstepd knows of the job.
ThisJob job_of_slurmstepd(spank_t handle, std::uint32_t id) {
    ThisJob job{.id = std::to_string(id), .array_task = {}};
    std::uint32_t step = 0;
    if (spank_get_item(handle, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step != batch_step)
        return job;
    std::uint32_t restarts = 0;
    if (spank_get_item(handle, S_SLURM_RESTART_COUNT, &restarts) == ESPANK_SUCCESS)
        job.restarts = std::to_string(restarts);
    std::uint32_t array = 0;
    std::uint32_t task = no_value;
    if (spank_get_item(handle, S_JOB_ARRAY_ID, &array) == ESPANK_SUCCESS && array != 0 &&
        spank_get_item(handle, S_JOB_ARRAY_TASK_ID, &task) == ESPANK_SUCCESS && task < no_value)
        job.array_task = std::to_string(task);
    return job;
}

// Returns the entries of the list in the order of the alphabet.
std::vector<std::string_view> entries_of(std::string_view list) {
    std::vector<std::string_view> entries;
    while (!list.empty()) {
        const std::size_t comma = list.find(',');
        entries.push_back(list.substr(0, comma));
        list.remove_prefix(std::min(list.size(), entries.back().size() + 1));
    }
    std::sort(entries.begin(), entries.end());
    return entries;
}

// Refuses the step if it has more of them than our parts set.
void remove_variables_of_another_job(spank_t handle) {
    char** environment = nullptr;
    if (spank_get_item(handle, S_JOB_ENV, &environment) != ESPANK_SUCCESS || environment == nullptr)
        return;
    std::vector<std::string> names = variables_of_a_job(environment);
    for (std::string& name : inherited_options(environment))
        names.push_back(std::move(name));
    if (names.size() > most_variables) {
        spank_unsetenv(handle, BATCHAI_PLAN_VARIABLE);
        sandbox().wanted = true;
        sandbox().failure = "the environment has " + std::to_string(names.size()) +
                            " variables of batchai that belong to another job; at most " +
                            std::to_string(most_variables) +
                            " are removed\nhint: unset BATCHAI_SLURM_JOB and the variables that "
                            "begin with " BATCHAI_AZURE_PREFIX;
        return;
    }
    for (const std::string& name : names)
        spank_unsetenv(handle, name.c_str());
}

}  // namespace

std::optional<ThisJob> read_this_job(std::string_view text) {
    ThisJob job;
    job.id = take_word(text);
    job.restarts = take_word(text);
    job.array_task = take_word(text);
    if (!text.empty() || !is_number(job.id) || !is_number(job.restarts)) return std::nullopt;
    if (!job.array_task.empty() && !is_number(job.array_task)) return std::nullopt;
    return job;
}

std::string text_of(const ThisJob& job) {
    return job.id + ' ' + job.restarts + (job.array_task.empty() ? "" : ' ' + job.array_task);
}

std::vector<std::string> variables_of_a_job(char* const* environment) {
    bool is_of_a_job = false;
    std::string_view of_ranks;
    for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view name = name_of(*entry);
        is_of_a_job = is_of_a_job || is_one_of(name, signs);
        if (name == BATCHAI_RANK_VARIABLES_VARIABLE)
            of_ranks = std::string_view(*entry).substr(std::min(name.size() + 1, strlen(*entry)));
    }
    std::vector<std::string> names;
    if (!is_of_a_job) return names;
    // Our parts set no longer list.
    if (of_ranks.size() > BATCHAI_RANK_VARIABLES_LIMIT) of_ranks = {};
    const std::vector<std::string_view> listed = entries_of(of_ranks);
    for (char* const* entry = environment; *entry != nullptr; ++entry) {
        const std::string_view name = name_of(*entry);
        if (name.starts_with(BATCHAI_AZURE_PREFIX) || is_one_of(name, variables) ||
            std::binary_search(listed.begin(), listed.end(), std::string_view(*entry)))
            names.emplace_back(name);
    }
    return names;
}

std::vector<std::string> inherited_options(char* const* environment) {
    constexpr std::string_view of_script = "SLURM_SPANK_";
    std::vector<std::string> names;
    for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view name = name_of(*entry);
        std::string_view rest = name;
        if (rest.starts_with(of_script)) rest.remove_prefix(of_script.size());
        if (rest.starts_with(BATCHAI_OPTION_VARIABLE_PREFIX) ||
            name == "SLURM_SPANK_" BATCHAI_DECLARATION_VARIABLE)
            names.emplace_back(name);
    }
    return names;
}

void settle_job(spank_t handle) {
    std::uint32_t id = 0;
    if (spank_get_item(handle, S_JOB_ID, &id) != ESPANK_SUCCESS) return;
    const auto told =
        read_this_job(job_variable(handle, BATCHAI_SLURM_JOB_VARIABLE, BATCHAI_SLURM_JOB_LIMIT));
    if (told && told->id != std::to_string(id)) {
        remove_variables_of_another_job(handle);
        sandbox().foreign_job = told->id;
        return;
    }
    if (told || !is_set(handle, BATCHAI_PLAN_VARIABLE)) return;
    spank_setenv(handle, BATCHAI_SLURM_JOB_VARIABLE, text_of(job_of_slurmstepd(handle, id)).c_str(),
                 1);
}

ThisJob job_of_plan(spank_t handle) {
    return read_this_job(job_variable(handle, BATCHAI_SLURM_JOB_VARIABLE, BATCHAI_SLURM_JOB_LIMIT))
        .value_or(ThisJob{});
}

}  // namespace batchai::spank
