// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

namespace batchai::base {

// Says who besides root could change or replace what is at an absolute path: the file itself or a
// directory on the way to it, links included. Returns nothing if nobody could. A directory with the
// sticky bit lets others make names but not replace ours. It is also an answer if something on the
// way cannot be looked at.
[[nodiscard]] std::optional<std::string> who_else_can_change(const std::string& path);

}  // namespace batchai::base
