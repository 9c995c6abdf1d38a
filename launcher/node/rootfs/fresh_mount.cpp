// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/fresh_mount.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>

#include "node/rootfs/in_root.hpp"

namespace batchai::node {

base::Result<void> mount_tmpfs(const FreshTmpfs& request, const Root& root) {
    const auto failed = [&](std::string_view what) {
        return base::fail(fmt::format("cannot mount a tmpfs: {}: {}", what, std::strerror(errno)),
                          fmt::format("{} in the container", request.target));
    };
    const auto target = make_directory_in_root(root, request.target);
    if (!target) return tl::unexpected<base::Error>(target.error());
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
    if (move_mount(mounted.get(), "", target->get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return failed("move_mount");
    return {};
}

}  // namespace batchai::node
