// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/host_tree.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

tl::unexpected<base::Error> bind_error(const Bind& bind, std::string_view what, int code) {
    return base::fail(
        fmt::format("cannot be shown in the container: {}: {}", what, std::strerror(code)),
        bind.source, bind.hint);
}

}  // namespace

base::Result<HostTree> copy_host_tree(const Bind& bind) {
    HostTree copy{bind, {}, true};
    const base::FileDescriptor source(open(bind.source.c_str(), O_PATH | O_CLOEXEC));
    struct stat status {};
    if (!source.valid() || fstat(source.get(), &status) != 0) {
        if (bind.optional) return copy;
        return bind_error(bind, "open", errno);
    }
    copy.is_directory = S_ISDIR(status.st_mode);
    copy.tree = base::FileDescriptor(open_tree(
        source.get(), "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!copy.tree.valid()) {
        if (bind.optional) return copy;
        return bind_error(bind, "open_tree", errno);
    }
    mount_attr attributes{};
    attributes.attr_set = MOUNT_ATTR_RDONLY;
    if (bind.read_only && mount_setattr(copy.tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                                        &attributes, sizeof attributes) != 0)
        return bind_error(bind, "cannot make it read-only", errno);
    return copy;
}

base::Result<void> attach(const HostTree& host, const Root& root) {
    if (!host.tree.valid()) return {};
    const auto target = host.is_directory ? make_directory_in_root(root, host.bind.target)
                                          : make_file_in_root(root, host.bind.target);
    if (!target) return tl::unexpected<base::Error>(target.error());
    if (move_mount(host.tree.get(), "", target->get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return bind_error(host.bind, "move_mount", errno);
    return {};
}

}  // namespace batchai::node
