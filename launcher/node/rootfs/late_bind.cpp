// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/late_bind.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/rootfs/in_root.hpp"

namespace batchai::node {

namespace {

base::Result<void> step_failed(const char* what) {
    return base::fail(fmt::format("{}: {}", what, std::strerror(errno)));
}

bool is_shown(const Bind& bind, const struct stat& wanted) {
    struct stat status {};
    return stat(bind.target.c_str(), &status) == 0 && status.st_dev == wanted.st_dev &&
           status.st_ino == wanted.st_ino;
}

// The node's tree can be copied only in a mount namespace that shows the node and belongs to the
// container's user namespace, which is therefore entered first; what was copied goes along into the
// container's mount namespace.
base::Result<void> show(const Connection& connection, const Bind& bind) {
    struct stat wanted {};
    if (stat(bind.source.c_str(), &wanted) != 0) return step_failed("cannot be examined");
    if (setns(connection.outer.get(), CLONE_NEWUSER) != 0 || unshare(CLONE_NEWNS) != 0)
        return step_failed("cannot be seen from the container's user namespace");
    const auto tree = copy_host_tree(bind);
    if (!tree) return tl::unexpected<base::Error>(tree.error());
    if (setns(connection.mounts.get(), CLONE_NEWNS) != 0)
        return step_failed("the container's mounts cannot be entered");
    if (is_shown(bind, wanted)) return {};
    const Root root{base::FileDescriptor(open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)), "/"};
    return attach(*tree, root);
}

[[noreturn]] void show_and_tell(const Connection& connection, const Bind& bind, int answer) {
    std::string text;
    try {
        if (const auto shown = show(connection, bind); !shown) text = shown.error().what;
    } catch (const std::exception& error) {
        text = error.what();
    }
    const bool told = write(answer, text.data(), text.size()) >= 0;
    _exit(told && text.empty() ? 0 : 1);
}

}  // namespace

base::Result<void> show_in_container(const Connection& connection, const Bind& bind) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return step_failed("cannot make a pipe");
    const base::FileDescriptor read_end(ends[0]);
    base::FileDescriptor write_end(ends[1]);
    const pid_t child = fork();
    if (child < 0) return step_failed("cannot fork");
    if (child == 0) show_and_tell(connection, bind, write_end.get());
    write_end.reset(-1);
    std::string why(512, '\0');
    const ssize_t count = read(read_end.get(), why.data(), why.size());
    why.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return base::fail(why.empty() ? "cannot be shown in the container" : why, bind.source);
}

}  // namespace batchai::node
