// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/node_root.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/keeper/registry.hpp"
#include "node/node_name.hpp"
#include "plan/relocate.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr const char* unguessable = ".XXXXXX";  // replaced by mkdtemp(3)

// With the base "batchai-1001", returns true for "batchai-1001" and "batchai-1001.x7Gq2c", but not
// for "batchai-10012", nor for a name that goes on with that of a node.
bool is_name_of(std::string_view name, const std::string& base) {
    constexpr std::size_t ending = std::string_view(unguessable).size();
    return name.starts_with(base) &&
           (name.size() == base.size() ||
            (name[base.size()] == '.' && name.size() == base.size() + ending));
}

// Whoever may write to the directory can make any number of such names, so only those of the user
// are opened.
bool is_own(const base::FileDescriptor& directory, const std::string& name) {
    struct stat status {};
    return fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode) && status.st_uid == geteuid();
}

// Returns the directories that belong to the user and to nobody else, in a fixed order, so that all
// processes choose the same one.
std::vector<base::Root> own_directories(const fs::path& parent, const std::string& base) {
    const base::FileDescriptor directory(open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::vector<std::string> names = base::names_in(directory.get());
    std::erase_if(names, [&](const std::string& name) {
        return !is_name_of(name, base) || !is_own(directory, name);
    });
    std::sort(names.begin(), names.end());
    std::vector<base::Root> roots;
    for (const std::string& name : names) {
        auto root = base::open_private_directory(parent / name);
        if (root) roots.push_back(std::move(*root));
    }
    return roots;
}

std::optional<base::Root> first_of_own(const fs::path& parent, const std::string& base) {
    auto roots = own_directories(parent, base);
    if (roots.empty()) return std::nullopt;
    return std::move(roots.front());
}

// Two processes that do this at the same time may each make a directory. Both then take the one
// that sorts first, and the other one is removed while it is still empty.
base::Result<base::Root> make_unguessable(const fs::path& parent, const std::string& base) {
    std::string path = (parent / (base + unguessable)).string();
    if (mkdtemp(path.data()) == nullptr)
        return base::fail(fmt::format("cannot be made: {}", std::strerror(errno)), path,
                          "node_directory of site.lua must name a directory that each node has "
                          "and users may write to");
    auto first = first_of_own(parent, base);
    if (!first) return base::fail("disappeared right after it was made", path);
    if (first->path != path) rmdir(path.c_str());
    return std::move(*first);
}

}  // namespace

std::string node_root_here(const std::string& planned) {
    const auto node = node_of_shared_host();
    if (!node || *node == host_name()) return planned;
    const std::string own_end = '-' + *node;
    return planned.ends_with(own_end) ? planned : planned + own_end;
}

std::vector<base::Root> find_node_roots(const std::string& node_directory) {
    const fs::path path(
        node_root_here((fs::path(node_directory) / fmt::format("batchai-{}", geteuid())).string()));
    return own_directories(path.parent_path(), path.filename().string());
}

base::Result<base::Root> open_node_root(const std::string& planned) {
    const std::string preferred = node_root_here(planned);
    if (auto root = base::open_private_directory(preferred)) return root;
    const fs::path path(preferred);
    const std::string base = path.filename().string();
    if (auto own = first_of_own(path.parent_path(), base)) return std::move(*own);
    if (mkdir(preferred.c_str(), 0700) == 0 || errno == EEXIST) {
        // If it exists, it may have been made by another process of the user, or by another user.
        if (auto root = base::open_private_directory(preferred)) return root;
    }
    return make_unguessable(path.parent_path(), base);
}

base::Result<plan::Plan> settle_node_root(plan::Plan plan, const Trace& trace) {
    const std::string planned = plan.directories.node_root;
    const base::Root root = TRY(open_node_root(planned));
    if (root.path == planned) return plan;
    if (root.path == node_root_here(planned))
        trace.line(fmt::format("{} is used on this node, which is not the only one of its host",
                               root.path));
    else
        trace.line(fmt::format("{} is not this user's own directory; {} is used on this node",
                               planned, root.path));
    return plan::with_node_root(std::move(plan), root.path);
}

base::Result<base::Root> make_job_directory(const base::Root& node_root, const std::string& path,
                                            const std::string& job_id) {
    const auto relative = TRY(base::relative_to(node_root.path, path));
    TRY(claim(node_root, job_id, relative.substr(0, relative.find('/'))));
    auto directory = TRY(base::make_beneath(node_root, relative));
    return base::Root{std::move(directory), path};
}

}  // namespace batchai::node
