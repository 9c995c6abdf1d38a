// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "node/beneath.hpp"

namespace batchai::node {

struct FreshTmpfs {
    std::string target;  // absolute, inside the root; made where it is missing
    std::string mode;    // octal, of its top directory
    std::int64_t bytes = 0;
    bool read_only = false;
};

// An empty file system in memory, without set-user-id programs and devices of its own.
[[nodiscard]] base::Result<void> mount_tmpfs(const FreshTmpfs& request, const Root& root);

}  // namespace batchai::node
