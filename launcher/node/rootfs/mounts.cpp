// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/mounts.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

tl::unexpected<base::Error> bind_error(const Bind& bind, std::string_view what, int code) {
    return base::fail(
        fmt::format("cannot be shown in the container: {}: {}", what, std::strerror(code)),
        bind.source, bind.hint);
}

std::string source_hint(int code, const plan::Mount& mount) {
    if (code == ENOENT || code == ENOTDIR)
        return fmt::format("the site maps it to {}, which is not a directory on this node",
                           mount.source);
    if (code == EACCES) return "you have no right to enter it; ask its owner or the admin";
    if (code == EXDEV || code == ELOOP)
        return fmt::format("a symbolic link in it leads out of {}", mount.source_root);
    if (code == ESTALE || code == ENOTCONN || code == EIO)
        return "the file system behind it does not answer; the admin can remount it";
    return {};
}

tl::unexpected<base::Error> mount_error(const plan::Mount& mount, std::string_view what, int code) {
    return base::fail(fmt::format("{}: {}", what, std::strerror(code)), {},
                      source_hint(code, mount));
}

// Links are followed as long as they stay below the root: users make them on purpose.
base::FileDescriptor open_below(int root, const std::string& relative) {
    open_how how{};
    how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    return base::FileDescriptor(
        static_cast<int>(syscall(SYS_openat2, root, relative.c_str(), &how, sizeof how)));
}

base::FileDescriptor open_directory(const plan::Mount& mount) {
    if (mount.source_root.empty() || mount.source_root == mount.source)
        return base::FileDescriptor(open(mount.source.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto below = relative_to(mount.source_root, mount.source);
    if (!below) {
        errno = EINVAL;
        return {};
    }
    const base::FileDescriptor root(
        open(mount.source_root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    return root.valid() ? open_below(root.get(), *below) : base::FileDescriptor();
}

}  // namespace

base::Result<HostTree> copy_host_tree(const Bind& bind) {
    HostTree copy{.bind = bind};
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
    const auto target = TRY(host.is_directory ? make_directory_in_root(root, host.bind.target)
                                              : make_file_in_root(root, host.bind.target));
    if (move_mount(host.tree.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return bind_error(host.bind, "move_mount", errno);
    return {};
}

base::Result<void> mount_tmpfs(const FreshTmpfs& request, const Root& root) {
    const auto failed = [&](std::string_view what) {
        return base::fail(fmt::format("cannot mount a tmpfs: {}: {}", what, std::strerror(errno)),
                          fmt::format("{} in the container", request.target));
    };
    const auto target = TRY(make_directory_in_root(root, request.target));
    const base::FileDescriptor context(fsopen("tmpfs", FSOPEN_CLOEXEC));
    if (!context.valid()) return failed("fsopen");
    const auto set = [&](const char* key, const std::string& value) {
        return fsconfig(context.get(), FSCONFIG_SET_STRING, key, value.c_str(), 0) == 0;
    };
    if (!set("mode", request.mode) || !set("size", std::to_string(request.bytes)) ||
        fsconfig(context.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0)
        return failed("fsconfig");
    // Bound devices keep the permissions of their own mount: "nodev" is for new ones.
    const unsigned int attributes =
        MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (request.read_only ? MOUNT_ATTR_RDONLY : 0U);
    const base::FileDescriptor mounted(fsmount(context.get(), FSMOUNT_CLOEXEC, attributes));
    if (!mounted.valid()) return failed("fsmount");
    if (move_mount(mounted.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return failed("move_mount");
    return {};
}

base::Result<base::FileDescriptor> open_mount_source(const plan::Mount& mount) {
    if (mount.create_source) TRY(base::make_directories(mount.source));
    base::FileDescriptor source = open_directory(mount);
    if (!source.valid()) return mount_error(mount, mount.source, errno);
    // O_PATH asks for no right on the directory itself; a mount that nobody can enter helps nobody.
    if (faccessat(source.get(), ".", X_OK, AT_EACCESS) != 0)
        return mount_error(mount, mount.source, errno);
    return source;
}

base::Result<void> bind_mount(const plan::Mount& mount, const Root& root) {
    if (!mount.source.starts_with('/') || !is_plain_relative(mount.target))
        return mount_error(mount, "the plan is damaged", EINVAL);
    auto source = TRY(open_mount_source(mount));
    auto target = TRY(make_beneath(root, mount.target));

    const base::FileDescriptor tree(open_tree(
        source.get(), "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
    if (!tree.valid()) return mount_error(mount, "open_tree", errno);
    mount_attr attributes{};
    if (mount.read_only) attributes.attr_set |= MOUNT_ATTR_RDONLY;
    if (mount.no_execute) attributes.attr_set |= MOUNT_ATTR_NOEXEC;
    if (attributes.attr_set != 0 && mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE,
                                                  &attributes, sizeof attributes) != 0)
        return mount_error(mount, "cannot restrict it", errno);
    if (move_mount(tree.get(), "", target.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return mount_error(mount, "move_mount", errno);
    return {};
}

}  // namespace batchai::node
