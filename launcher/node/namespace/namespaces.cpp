// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/namespace/namespaces.hpp"

#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::node {

namespace {

base::Result<void> write_map(const char* path, std::string_view text) {
    const base::FileDescriptor file(open(path, O_WRONLY | O_CLOEXEC));
    const auto size = static_cast<ssize_t>(text.size());
    if (file.valid() && write(file.get(), text.data(), text.size()) == size) return {};
    return base::fail(fmt::format("cannot be written: {}", std::strerror(errno)), path,
                      "a security module (AppArmor, SELinux) may restrict user namespaces");
}

}  // namespace

base::Result<void> enter_private_namespaces() {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return base::fail(
            fmt::format("cannot make a user and a mount namespace: {}", std::strerror(errno)), {},
            "the admin must allow them: user.max_user_namespaces above 0 and, where it exists, "
            "kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0");
    // Without privileges the group map can be written only after setgroups() is given up.
    auto mapped = write_map("/proc/self/setgroups", "deny")
                      .and_then([&] {
                          return write_map("/proc/self/uid_map", fmt::format("{0} {0} 1", uid));
                      })
                      .and_then([&] {
                          return write_map("/proc/self/gid_map", fmt::format("{0} {0} 1", gid));
                      });
    if (!mapped) return mapped;
    if (mount(nullptr, "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0)
        return base::fail(fmt::format("cannot make mounts private: {}", std::strerror(errno)));
    return {};
}

}  // namespace batchai::node
