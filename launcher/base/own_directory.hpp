// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"

namespace batchai::base {

// Refuses a directory that somebody else could have put where ours was: one that is a symbolic link
// itself (links on the way to it are the admin's business), belongs to another user, or can be
// written to by others. `where` of the error is the path.
[[nodiscard]] Result<void> check_own_directory(const std::string& path);

}  // namespace batchai::base
