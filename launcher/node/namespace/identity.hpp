// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::node {

// What programs in a container must know about the user. It is read on the node before the root
// changes.
struct Account {
    unsigned int uid = 0;
    unsigned int gid = 0;
    std::string name;
    std::string group;
    std::string home;
};

[[nodiscard]] Account find_account();

// Returns the image's passwd(5) or group(5) with an entry for the user, and one for root if the
// image has none. Entries of the image that have the user's id or name are removed.
[[nodiscard]] std::string passwd_with(std::string_view text, const Account& account);
[[nodiscard]] std::string group_with(std::string_view text, const Account& account);

// The mapping of ids in a container. `inside` is the first id of a range as programs see it, and
// `outside` is the corresponding id on the node or in the outer namespace. The functions below only
// compute values.

struct IdExtent {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 0;

    bool operator==(const IdExtent&) const = default;
};
using IdMap = std::vector<IdExtent>;

// A range of ids that belong to a user besides the user's own id (subuid(5)).
struct SubordinateIds {
    std::uint32_t first = 0;
    std::uint32_t count = 0;

    bool operator==(const SubordinateIds&) const = default;
};

// Finds the user's first range in the text of /etc/subuid or /etc/subgid that has the 65534 ids
// that images may use, and returns its first 65534 ids. A line names the user or gives the user's
// id. Malformed lines are skipped. Returns nothing if there is no such range.
[[nodiscard]] std::optional<SubordinateIds> find_subordinate_ids(std::string_view text,
                                                                 std::string_view user,
                                                                 std::uint32_t id);

// Returns the map of the outer namespace: root inside is the user, and other ids are the
// subordinate ones, if any.
[[nodiscard]] IdMap outer_map(std::uint32_t id, const std::optional<SubordinateIds>& others);

// Returns the map of the inner namespace, in which ranks run. Root of the outer namespace is mapped
// to the user's own id again, because PMIx compares it. Other ids stay what they are in the outer
// namespace.
[[nodiscard]] IdMap rank_map(std::uint32_t id, const std::optional<SubordinateIds>& others);

// Returns the map in the format of /proc/<pid>/uid_map.
[[nodiscard]] std::string to_text(const IdMap& map);

}  // namespace batchai::node
