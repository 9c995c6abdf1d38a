// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::spank {

struct Reply {
    bool ok = false;
    std::string text;                      // the task's directory, or empty; if not ok, the reason
    bool one_id = false;                   // BATCHAI_REPLY_ONE_ID
    std::vector<std::string> environment;  // "NAME=value" to set, "NAME" to remove
};

// Must be called only as the user, because the bytes come from a process of the user's. Returns
// nothing if they are not a complete reply of our version.
[[nodiscard]] std::optional<Reply> parse_reply(std::string_view bytes);

// Reads the whole reply file, but stops once it has more bytes than the limit.
[[nodiscard]] std::string read_reply(int descriptor);

}  // namespace batchai::spank
