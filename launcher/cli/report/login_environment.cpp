// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/login_environment.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <unistd.h>

#include "job/syntax/utf8.hpp"

namespace batchai::cli {
namespace {

constexpr std::array<std::string_view, 11> of_another_job{
    "SLURM_", "SLURMD_", "SBATCH_",  "SALLOC_",  "SRUN_",         "SPANK_",
    "PMIX_",  "PMI_",    "BATCHAI_", "AZ_BATCH", "AZURE_BATCHAI_"};

bool is_utf8(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t length = job::utf8_sequence(text, at);
        if (length == 0) return false;
        at += length;
    }
    return true;
}

bool is_handed_on(std::string_view name) {
    return std::none_of(of_another_job.begin(), of_another_job.end(),
                        [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::map<std::string, std::string> login_environment() {
    std::map<std::string, std::string> out;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t sign = text.find('=');
        if (sign == 0 || sign == std::string_view::npos) continue;
        const std::string_view name = text.substr(0, sign);
        const std::string_view value = text.substr(sign + 1);
        if (is_handed_on(name) && is_utf8(name) && is_utf8(value)) out.emplace(name, value);
    }
    return out;
}

}  // namespace batchai::cli
