// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>
#include <sys/types.h>

#include "base/file.hpp"

namespace batchai::node {

// Returns the text of /proc/PROCESS/NAME; empty if it cannot be read, as when the process has
// ended.
[[nodiscard]] inline std::string proc_text(pid_t process, std::string_view name) {
    return base::read_file(fmt::format("/proc/{}/{}", process, name)).value_or(std::string());
}

}  // namespace batchai::node
