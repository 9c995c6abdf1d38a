// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/rootfs/fuse_server.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.hpp"
#include "node/fuse_mount.hpp"

namespace batchai::node {

namespace {

constexpr int first_closed_descriptor = 3;

std::string read_from_start(int file) {
    std::string text(4096, '\0');
    const ssize_t count = pread(file, text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return std::string(base::trim(text));
}

[[noreturn]] void become(const FuseRequest& request, int device, int errors, pid_t parent) {
    // Without a parent there is nobody left to serve.
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) _exit(1);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    const int kept = dup2(device, first_closed_descriptor);
    // Among the others are the sockets and pipes whose end tells somebody something.
    if (kept < 0 || close_range(first_closed_descriptor + 1, ~0U, 0) != 0) _exit(1);
    std::vector<std::string> words{request.program};
    words.insert(words.end(), request.arguments.begin(), request.arguments.end());
    words.push_back(fmt::format("/dev/fd/{}", kept));
    std::vector<char*> pointers;
    pointers.reserve(words.size() + 1);
    for (std::string& word : words)
        pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execvp(pointers[0], pointers.data());
    const std::string text = fmt::format("cannot be started: {}", std::strerror(errno));
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(126);
    _exit(127);
}

// The first question: the kernel lets it wait for the program's first word.
bool answers(const std::string& directory) {
    DIR* const stream = opendir(directory.c_str());
    if (stream == nullptr) return false;
    errno = 0;
    const bool readable = readdir(stream) != nullptr || errno == 0;
    closedir(stream);
    return readable;
}

}  // namespace

base::Result<FuseServer> FuseServer::start(const FuseRequest& request) {
    auto device = open_fuse_device();
    if (!device) return tl::unexpected<base::Error>(device.error());
    // Everybody inside may use it, by the modes of its files: that is root, the user and, where the
    // site has subordinate ids, the accounts of the image.
    auto mounted = mount_fuse(*device, {.program = request.program,
                                        .source = request.program,
                                        .target = request.target,
                                        .read_only = request.read_only,
                                        .kernel_checks_modes = true});
    if (!mounted) {
        mounted.error().what =
            fmt::format("cannot mount {}: {}", request.what, mounted.error().what);
        return tl::unexpected<base::Error>(std::move(mounted).error());
    }
    const base::FileDescriptor errors(memfd_create("fuse-errors", MFD_CLOEXEC));
    if (!errors.valid()) return base::fail(fmt::format("memfd_create: {}", std::strerror(errno)));
    FuseServer server;
    const pid_t parent = getpid();
    server.process_ = fork();
    if (server.process_ < 0)
        return base::fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (server.process_ == 0) become(request, device->get(), errors.get(), parent);
    // Only the program holds it now: when it ends, waiting for an answer ends as well.
    device->reset(-1);
    if (answers(request.target)) return server;
    const int code = errno;
    kill(server.process_, SIGKILL);
    int status = 0;
    waitpid(server.process_, &status, 0);
    const bool missing = WIFEXITED(status) && WEXITSTATUS(status) == 127;
    const std::string said = read_from_start(errors.get());
    return base::fail(
        fmt::format("cannot mount {}: {} {}", request.what, request.program,
                    said.empty() ? std::string(std::strerror(code)) : said),
        {},
        missing ? fmt::format("the admin must install the package {} on this node", request.package)
                : "");
}

}  // namespace batchai::node
