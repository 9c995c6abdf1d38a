// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/namespace/identity.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include "base/text.hpp"

namespace batchai::node {

namespace {

// Returns the lines except those with the given name (first field) or the given id (third field).
// Sets `has_root` if one of the returned lines is that of root.
std::string without(std::string_view text, std::string_view name, unsigned int id, bool& has_root) {
    std::string kept;
    const std::string number = std::to_string(id);
    for (const std::string_view line : base::split(text, '\n')) {
        const auto fields = base::split(line, ':');
        if (line.empty() || (fields.size() >= 3 && (fields[0] == name || fields[2] == number)))
            continue;
        has_root = has_root || fields[0] == "root";
        kept.append(line).push_back('\n');
    }
    return kept;
}

}  // namespace

Account find_account() {
    Account found;
    found.uid = geteuid();
    found.gid = getegid();
    if (const passwd* const entry = getpwuid(found.uid)) {
        found.name = entry->pw_name;
        found.home = entry->pw_dir;
    } else {
        found.name = fmt::format("user{}", found.uid);
    }
    const group* const entry = getgrgid(found.gid);
    found.group = entry == nullptr ? fmt::format("group{}", found.gid) : entry->gr_name;
    return found;
}

std::string passwd_with(std::string_view text, const Account& account) {
    bool has_root = false;
    if (account.uid == 0) {
        std::string kept = without(text, "root", 0, has_root);
        return fmt::format("root:x:0:0:root:{}:/bin/sh\n{}", account.home, kept);
    }
    std::string kept = without(text, account.name, account.uid, has_root);
    if (!has_root) kept.insert(0, "root:x:0:0:root:/root:/bin/sh\n");
    return fmt::format("{}{}:x:{}:{}:{}:{}:/bin/sh\n", kept, account.name, account.uid, account.gid,
                       account.name, account.home);
}

std::string group_with(std::string_view text, const Account& account) {
    bool has_root = false;
    if (account.gid == 0) {
        const std::string kept = without(text, "root", 0, has_root);
        return "root:x:0:\n" + kept;
    }
    std::string kept = without(text, account.group, account.gid, has_root);
    if (!has_root) kept.insert(0, "root:x:0:\n");
    return fmt::format("{}{}:x:{}:\n", kept, account.group, account.gid);
}

namespace {

// Images may use the ids 1 to 65534. 65535 stands for "none" in some programs.
constexpr std::uint32_t ids_of_images = 65534;

}  // namespace

std::optional<SubordinateIds> find_subordinate_ids(std::string_view text, std::string_view user,
                                                   std::uint32_t id) {
    for (const std::string_view line : base::split(text, '\n')) {
        const auto fields = base::split(base::trim(line), ':');
        if (fields.size() != 3 || fields[0].empty()) continue;
        if (fields[0] != user && base::number_in<std::uint32_t>(fields[0]) != id) continue;
        const auto first = base::number_in<std::uint32_t>(fields[1]);
        const auto count = base::number_in<std::uint32_t>(fields[2]);
        if (!first || !count || *count < ids_of_images) continue;
        return SubordinateIds{*first, ids_of_images};
    }
    return std::nullopt;
}

IdMap outer_map(std::uint32_t id, const std::optional<SubordinateIds>& others) {
    IdMap map{{0, id, 1}};
    if (others) map.push_back({1, others->first, others->count});
    return map;
}

IdMap rank_map(std::uint32_t id, const std::optional<SubordinateIds>& others) {
    IdMap map{{id, 0, 1}};
    if (!others) return map;
    const std::uint32_t last = others->count;
    if (id == 0 || id > last) {
        map.push_back({1, 1, last});
        return map;
    }
    // The ids of the user and of root change places.
    map.push_back({0, id, 1});
    if (id > 1) map.push_back({1, 1, id - 1});
    if (id < last) map.push_back({id + 1, id + 1, last - id});
    return map;
}

std::string to_text(const IdMap& map) {
    std::string text;
    for (const IdExtent& extent : map)
        text += fmt::format("{} {} {}\n", extent.inside, extent.outside, extent.count);
    return text;
}

}  // namespace batchai::node
