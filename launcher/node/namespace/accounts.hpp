// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::node {

// What programs in a container must know of the user. Read on the node before the root changes.
struct Account {
    unsigned int uid = 0;
    unsigned int gid = 0;
    std::string name;
    std::string group;
    std::string home;
};

[[nodiscard]] Account find_account();

// The image's passwd(5) or group(5) with the user in it, and root where it has none. An entry of
// the image that has the user's id or name gives way.
[[nodiscard]] std::string passwd_with(std::string_view text, const Account& account);
[[nodiscard]] std::string group_with(std::string_view text, const Account& account);

}  // namespace batchai::node
