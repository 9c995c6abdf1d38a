// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Which ids the processes in a container see. Outside a range is of the node (or of the outer
// namespace), inside it is what programs see. Values only.

struct IdExtent {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 0;

    bool operator==(const IdExtent&) const = default;
};
using IdMap = std::vector<IdExtent>;

// A range of ids that belong to a user besides the own one (subuid(5)).
struct SubordinateIds {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    bool operator==(const SubordinateIds&) const = default;
};

// The user's first range in the text of /etc/subuid or /etc/subgid; lines name users or their ids.
// Nothing when it is malformed or shorter than the 65534 ids that images may use.
[[nodiscard]] std::optional<SubordinateIds> find_subordinate_ids(std::string_view text,
                                                                 std::string_view user,
                                                                 std::uint32_t id);

// Of the outer namespace: root inside is the user; other ids are the subordinate ones, if any.
[[nodiscard]] IdMap outer_map(std::uint32_t id, const std::optional<SubordinateIds>& others);

// Of the inner namespace, in which ranks run: the outer root is the user's own id again, because
// PMIx compares it. Other ids stay what they are in the outer one.
[[nodiscard]] IdMap rank_map(std::uint32_t id, const std::optional<SubordinateIds>& others);

// As /proc/<pid>/uid_map takes it.
[[nodiscard]] std::string to_text(const IdMap& map);

}  // namespace batchai::node
