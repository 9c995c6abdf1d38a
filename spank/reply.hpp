// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::spank {

struct Reply {
    bool ok = false;
    std::string text;     // the task's directory if not empty; why not, when not ok
    bool one_id = false;  // BATCHAI_REPLY_ONE_ID
    std::vector<std::string> environment;  // "NAME=value", or "NAME" of one to take away
};

// Only ever called as the user: the bytes come from a process of the user. Nothing when they are
// not a whole reply of our version.
[[nodiscard]] std::optional<Reply> parse_reply(std::string_view bytes);

// The whole of a reply file, or as much as is one byte above the limit.
[[nodiscard]] std::string read_reply(int descriptor);

}  // namespace batchai::spank
