// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "base/error.hpp"

namespace batchai::node {

// Removes the directory `name` in the open directory `parent` with all that is in it. Links are
// removed, not followed; a directory on another file system is an error and stays. Goes on after
// an error, and returns the first.
[[nodiscard]] base::Result<void> remove_tree(int parent, const std::string& name);

}  // namespace batchai::node
