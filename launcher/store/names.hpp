// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "base/error.hpp"

namespace batchai::store {

enum class Kind { group, workspace, experiment, cluster, job };

// "resource group", "workspace", …: for messages.
[[nodiscard]] std::string_view kind_name(Kind kind);

// Whether `name` may name a resource: 1 to 64 letters, digits, "-" and "_"; a resource group's name
// has up to 90 and may hold "." too, but is neither "." nor "..". Letters are ASCII. A name that
// passes is one path component. The error has ExitCode::usage and says which character is wrong.
[[nodiscard]] base::Result<void> check_name(Kind kind, std::string_view name);

}  // namespace batchai::store
