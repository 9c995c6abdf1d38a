// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/paths.hpp"

#include <fmt/format.h>

namespace batchai::run {

std::string rank_error_file(const plan::Plan& plan, const std::string& start, int rank) {
    return fmt::format("{}/attempts/{}.stderr-{}.txt", plan.directories.job_directory, start, rank);
}

std::string rank_error_pattern(const plan::Plan& plan, const std::string& start) {
    return fmt::format("{}/attempts/{}.stderr-%t.txt", plan.directories.job_directory, start);
}

}  // namespace batchai::run
