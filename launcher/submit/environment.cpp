// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/environment.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "job/syntax/utf8.hpp"
#include "slurm/client.hpp"
#include "slurm/own_environment.hpp"
#include "spank/protocol.h"

namespace batchai::submit {

base::Environment submission_environment() {
    base::Environment environment = slurm::scrubbed_environment();
    environment.emplace_back(BATCHAI_CLEAN_UP_VARIABLE "=1");
    return environment;
}

std::string launcher_path() {
    std::error_code code;
    auto path = std::filesystem::read_symlink("/proc/self/exe", code);
    return code ? "batchai" : path.string();
}

namespace {

constexpr std::array<std::string_view, 12> of_another_job{
    "SLURM_", "_SLURM_", "SLURMD_", "SBATCH_",  "SALLOC_",  "SRUN_",
    "SPANK_", "PMIX_",   "PMI_",    "BATCHAI_", "AZ_BATCH", "AZURE_BATCHAI_"};

bool is_handed_on(std::string_view name) {
    return std::none_of(of_another_job.begin(), of_another_job.end(),
                        [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

std::map<std::string, std::string> login_environment() {
    std::map<std::string, std::string> out;
    for (const std::string& entry :
         slurm::without_variables_of_a_job(base::environment_without({}))) {
        const std::string_view text(entry);
        const std::size_t sign = text.find('=');
        if (sign == 0 || sign == std::string_view::npos) continue;
        const std::string_view name = text.substr(0, sign);
        const std::string_view value = text.substr(sign + 1);
        if (is_handed_on(name) && job::is_utf8(name) && job::is_utf8(value))
            out.emplace(name, value);
    }
    return out;
}

}  // namespace batchai::submit
