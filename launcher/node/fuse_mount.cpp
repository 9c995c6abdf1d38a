// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/fuse_mount.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

namespace batchai::node {

namespace {

constexpr const char* device_path = "/dev/fuse";

std::string device_hint(int code) {
    if (code == EACCES || code == EPERM)
        return "users must be allowed to open it on every node; the admin can give it mode 0666 "
               "(udev does so where the package fuse3 is installed)";
    if (code == ENOENT || code == ENODEV || code == ENXIO)
        return "the kernel module fuse is not loaded on this node; the admin can load it";
    return {};
}

}  // namespace

base::Result<base::FileDescriptor> open_fuse_device() {
    base::FileDescriptor device(open(device_path, O_RDWR | O_CLOEXEC));
    if (device.valid()) return device;
    const int code = errno;
    return base::fail(fmt::format("cannot be opened: {}", std::strerror(code)), device_path,
                      device_hint(code));
}

base::Result<void> mount_fuse(const base::FileDescriptor& device, const FuseMount& request) {
    std::string options = fmt::format("fd={},rootmode=40000,user_id={},group_id={},allow_other",
                                      device.get(), geteuid(), getegid());
    if (request.kernel_checks_modes) options += ",default_permissions";
    unsigned long flags = MS_NOSUID | MS_NODEV;
    if (request.read_only) flags |= MS_RDONLY;
    if (request.no_execute) flags |= MS_NOEXEC;
    const std::string type = "fuse." + request.program;
    if (mount(request.source.c_str(), request.target.c_str(), type.c_str(), flags,
              options.c_str()) == 0)
        return {};
    return base::fail(fmt::format("cannot be mounted: {}", std::strerror(errno)), "FUSE",
                      "FUSE mounts in user namespaces need Linux 4.18 or newer");
}

}  // namespace batchai::node
