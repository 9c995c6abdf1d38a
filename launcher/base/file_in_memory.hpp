// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::base {

// Returns a file in memory, at its beginning, that has the text and that nobody can change. It goes
// with its last descriptor, however this process ends. Only the user may open it by what /proc
// calls the descriptor. `name` is what /proc and an error call the file.
[[nodiscard]] Result<FileDescriptor> file_in_memory(const std::string& name, std::string_view text);

}  // namespace batchai::base
