// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"

// The file ".reserved.<token>" in a job's directory: who is about to create the job.
namespace batchai::store {

[[nodiscard]] std::string marker_name(std::string_view token);

// Boot, host, process and its start time as text.
[[nodiscard]] std::string marker_text();

// Whether the process that wrote this marker is certainly gone, or the marker is from another host
// or boot and older than an hour. Text that is no marker counts as from elsewhere.
[[nodiscard]] bool is_abandoned(std::string_view text, std::filesystem::file_time_type written);

// Takes the directory from the reservation `token` by renaming its marker: true for exactly one
// caller, who may then move the directory.
[[nodiscard]] bool claim(const std::filesystem::path& directory, std::string_view token);

// Moves an abandoned reservation out of the way; false when the directory holds a job or a
// reservation that may still be alive.
[[nodiscard]] base::Result<bool> reclaim(const std::filesystem::path& home,
                                         const std::filesystem::path& directory);

}  // namespace batchai::store
