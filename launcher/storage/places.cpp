// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/places.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/process.hpp"
#include "base/text.hpp"

namespace batchai::storage {

namespace {

using base::ExitCode;
using base::Result;
using site::StoragePlace;

constexpr std::string_view placeholder = "%s";

// Where the names of the shares are in the paths of a place.
struct Layout {
    std::string directory;  // that has an entry for each share
    std::string before;     // what the entry's name has before and after the share's
    std::string after;
    std::string below;  // the path below the entry, without a leading slash; usually empty
};

Result<Layout> layout_of(const StoragePlace& place) {
    if (place.where == StoragePlace::Where::launcher) return Layout{place.parent, "", "", ""};
    const std::string& pattern = place.pattern;
    const auto at = pattern.find(placeholder);
    const auto slash = pattern.rfind('/', at);
    if (at == std::string::npos || slash == std::string::npos ||
        pattern.find(placeholder, at + 1) != std::string::npos)
        return base::fail(
            "the shares of this account cannot be listed: their path in site.lua does "
            "not have their name in one place",
            pattern, "ask the admin which shares there are");
    Layout layout;
    layout.directory = pattern.substr(0, std::max<std::size_t>(slash, 1));
    layout.before = pattern.substr(slash + 1, at - slash - 1);
    const auto rest = std::string_view(pattern).substr(at + placeholder.size());
    const auto end = std::min(rest.find('/'), rest.size());
    layout.after = rest.substr(0, end);
    layout.below = end < rest.size() ? std::string(rest.substr(end + 1)) : "";
    return layout;
}

// Returns the name of the share that an entry is for; empty if it is for none.
std::string store_name(const Layout& layout, const std::string& entry) {
    if (entry.size() <= layout.before.size() + layout.after.size() ||
        !entry.starts_with(layout.before) || !entry.ends_with(layout.after))
        return {};
    return entry.substr(layout.before.size(),
                        entry.size() - layout.before.size() - layout.after.size());
}

struct Place {
    base::Root parent;
    std::string name;  // of the share's directory in it
};

// Opens the directory that has the share's.
Result<Place> parent_of(const StoragePlace& place, const std::string& name) {
    const std::string path = place.directory(name);
    const auto trimmed = path.substr(0, path.find_last_not_of('/') + 1);
    const auto slash = trimmed.find_last_of('/');
    return Place{TRY(base::open_guarded_directory(trimmed.substr(0, slash + 1))),
                 trimmed.substr(slash + 1)};
}

}  // namespace

Result<void> check_store_name(std::string_view name, std::string_view what) {
    const bool harmful = std::any_of(name.begin(), name.end(), [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return byte <= 0x20 || byte == 0x7F || c == '/' || c == '\\' || c == '%';
    });
    if (!name.empty() && name.front() != '.' && !harmful && name.size() <= 255) return {};
    return base::fail(fmt::format("The specified {} name is not valid", what), "--name",
                      "take letters, digits and \"-\"", ExitCode::usage);
}

Result<std::vector<Entry>> stores_of(const StoragePlace& place) {
    const Layout layout = TRY(layout_of(place));
    const auto directory = Share::open(layout.directory, "");
    if (!directory) {
        if (directory.error().exit_code == ExitCode::not_found) return std::vector<Entry>{};
        return tl::unexpected(directory.error());
    }
    std::vector<Entry> stores;
    for (const Entry& entry : TRY(directory->list(""))) {
        Entry store = entry;
        store.name = store_name(layout, entry.name);
        if (store.name.empty() || !check_store_name(store.name, "share")) continue;
        // Opening it also follows a link that the admin has made.
        struct stat status {};
        const auto opened = base::open_guarded_directory(place.directory(store.name));
        if (!opened || fstat(opened->directory.get(), &status) != 0) continue;
        store.kind = EntryKind::directory;
        store.modified = base::Time{std::chrono::seconds(status.st_mtim.tv_sec)};
        store.inode = status.st_ino;
        stores.push_back(std::move(store));
    }
    return stores;
}

Result<Share> open_store(const StoragePlace& place, const std::string& name,
                         std::string_view what) {
    TRY(check_store_name(name, what));
    auto share = Share::open(place.directory(name), name);
    if (share || share.error().exit_code != ExitCode::not_found) return share;
    std::vector<std::string> names;
    if (const auto stores = stores_of(place)) {
        for (const Entry& store : *stores)
            names.push_back(store.name);
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    const auto near = base::nearest(name, views);
    return base::fail(fmt::format("The specified {} does not exist: \"{}\"", what, name),
                      place.directory(name),
                      near            ? fmt::format("did you mean \"{}\"?", *near)
                      : names.empty() ? fmt::format("`az storage {} create` makes one", what)
                                      : fmt::format("there are: {}", fmt::join(names, ", ")),
                      ExitCode::not_found);
}

Result<bool> create_store(const StoragePlace& place, const std::string& name) {
    const Layout layout = TRY(layout_of(place));
    auto at = TRY(place.where == StoragePlace::Where::launcher
                      ? base::make_guarded_directory(layout.directory)
                      : base::open_guarded_directory(layout.directory));
    bool made = false;
    std::string path = layout.before + name + layout.after;
    if (!layout.below.empty()) path += "/" + layout.below;
    for (const std::string_view component : base::split(path, '/')) {
        if (component.empty()) continue;
        const std::string entry(component);
        at.path += "/" + entry;
        made = mkdirat(at.directory.get(), entry.c_str(), 0777) == 0;
        if (!made && errno != EEXIST)
            return base::fail(fmt::format("cannot be created: {}", std::strerror(errno)), at.path,
                              place.where == StoragePlace::Where::site
                                  ? "this directory is the site's; ask the admin to make the share"
                                  : "");
        if (made) {
            auto next = base::open_beneath(at.directory.get(), entry, O_PATH | O_DIRECTORY);
            if (!next.valid()) return base::fail(std::strerror(errno), at.path);
            at.directory = std::move(next);
        } else {
            at = TRY(base::open_guarded_directory(at.path));
        }
    }
    return made;
}

Result<bool> remove_store(const StoragePlace& place, const std::string& name) {
    const auto found = parent_of(place, name);
    if (!found && found.error().exit_code == ExitCode::not_found) return false;
    if (!found) return tl::unexpected(found.error());
    // Who may not remove the directory itself must not lose the files in it. So it first gets
    // another name, for which the same rights are needed; it is also gone in one step. What cannot
    // be removed gets its name back, so that its files can still be reached.
    const int parent = found->parent.directory.get();
    const base::HeldSignals until_then{SIGINT, SIGTERM, SIGHUP};
    const std::string doomed = fmt::format(".batchai-deleted-{}", base::random_uuid());
    if (!base::rename_at(parent, found->name, parent, doomed)) {
        if (errno == ENOENT) return false;
        return base::fail(
            fmt::format("cannot be deleted: {}", std::strerror(errno)), place.directory(name),
            place.where == StoragePlace::Where::site ? "this directory is the site's; ask the admin"
                                                     : "");
    }
    auto removed = base::remove_tree(parent, doomed);
    if (!removed) {
        const bool back = base::rename_at(parent, doomed, parent, found->name);
        removed.error().where = back ? place.directory(name) : found->parent.path + "/" + doomed;
        removed.error().hint = "some of its files belong to others and are left there";
        return tl::unexpected(removed.error());
    }
    return true;
}

}  // namespace batchai::storage
