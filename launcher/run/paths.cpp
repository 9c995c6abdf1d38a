// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/paths.hpp"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace batchai::run {

std::string rank_error_file(const plan::Plan& plan, const std::string& start, int rank) {
    return fmt::format("{}/attempts/{}.stderr-{}.txt", plan.directories.job_directory, start, rank);
}

std::string rank_error_pattern(const plan::Plan& plan, const std::string& start) {
    return fmt::format("{}/attempts/{}.stderr-%t.txt", plan.directories.job_directory, start);
}

std::string wire_up_program() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const fs::path beside =
        self.parent_path().parent_path() / BATCHAI_LIBEXEC_NAME / "mpi_bridge_wireup";
    if (!error && fs::exists(beside, error)) return beside.string();
    return BATCHAI_LIBEXECDIR "/mpi_bridge_wireup";
}

}  // namespace batchai::run
