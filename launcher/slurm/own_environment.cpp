// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/own_environment.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "spank/protocol.h"

namespace batchai::slurm {

namespace {

constexpr auto signs = std::to_array<std::string_view>({BATCHAI_SIGNS_OF_A_JOB});
constexpr auto variables = std::to_array<std::string_view>({BATCHAI_VARIABLES_OF_ONE_JOB});

bool is_one_of(std::string_view name, const auto& names) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

std::string_view name_of(std::string_view entry) {
    return entry.substr(0, entry.find('='));
}

}  // namespace

base::Environment without_variables_of_a_job(base::Environment environment) {
    const bool is_of_a_job =
        std::any_of(environment.begin(), environment.end(),
                    [](const std::string& entry) { return is_one_of(name_of(entry), signs); });
    if (!is_of_a_job) return environment;
    constexpr std::string_view list = BATCHAI_RANK_VARIABLES_VARIABLE "=";
    std::string of_ranks;
    for (const std::string& entry : environment)
        if (entry.starts_with(list)) of_ranks = entry.substr(list.size());
    const std::vector<std::string_view> rank_entries = base::split(of_ranks, ',');
    std::erase_if(environment, [&](const std::string& entry) {
        return entry.starts_with(BATCHAI_AZURE_PREFIX) || is_one_of(name_of(entry), variables) ||
               is_one_of(std::string_view(entry), rank_entries);
    });
    return environment;
}

}  // namespace batchai::slurm
