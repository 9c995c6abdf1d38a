// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::image {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int tick_milliseconds = 250;
constexpr std::size_t error_limit = 64UL << 10U;
constexpr std::size_t output_limit = 16UL << 20U;

struct Pipe {
    base::FileDescriptor read_end;
    base::FileDescriptor write_end;
};

base::Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return base::fail(std::strerror(errno), "pipe");
    return Pipe{base::FileDescriptor(ends[0]), base::FileDescriptor(ends[1])};
}

std::string package_of(const std::string& program) {
    return program == "mksquashfs" ? "squashfs-tools" : program;
}

// Between fork and exec: nothing here may allocate. The pipe tells the parent why exec failed.
[[noreturn]] void become(char* const* argv, int output, int error, int failure, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    execvp(argv[0], argv);
    const int code = errno;
    if (write(failure, &code, sizeof code) < 0) _exit(126);
    _exit(127);
}

class Child {
  public:
    explicit Child(pid_t pid) : pid_(pid) {}
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (pid_ <= 0) return;
        kill(-pid_, SIGKILL);
        kill(pid_, SIGKILL);  // should it not have its group yet
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    // Its status once it has ended.
    std::optional<int> ended() {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
        pid_ = -1;
        return status;
    }

  private:
    pid_t pid_;
};

// False at the end of the stream.
bool drain(int descriptor, std::string& into, std::size_t keep_last) {
    std::array<char, 16384> chunk{};
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    into.append(chunk.data(), static_cast<std::size_t>(count));
    if (into.size() > keep_last) into.erase(0, into.size() - keep_last);
    return count > 0;
}

struct Streams {
    Pipe output;
    Pipe error;
};

base::Result<pid_t> start(const Command& command, const Streams& streams) {
    std::vector<std::string> words = command.arguments;
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    auto failure = make_pipe();
    if (!failure) return tl::unexpected<base::Error>(failure.error());
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) return base::fail(std::strerror(errno), "fork");
    if (child == 0)
        become(argv.data(), streams.output.write_end.get(), streams.error.write_end.get(),
               failure->write_end.get(), parent);
    failure->write_end.reset(-1);
    int code = 0;
    if (read(failure->read_end.get(), &code, sizeof code) != sizeof code) return child;
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    const std::string& program = words.front();
    return base::fail(
        fmt::format("cannot be started: {}", std::strerror(code)), program,
        code == ENOENT ? fmt::format("the package {} has it", package_of(program)) : "");
}

}  // namespace

base::Result<void> check_interrupted(const Watch& watch) {
    if (!watch.interrupted || !watch.interrupted()) return {};
    return base::fail("interrupted; nothing is left behind", {}, {}, interrupted_code);
}

base::Result<base::Completed> run(const Command& command, const Watch& watch) {
    auto output = make_pipe();
    auto error = make_pipe();
    if (!output || !error) return base::fail(std::strerror(errno), "pipe");
    Streams streams{std::move(*output), std::move(*error)};
    const auto pid = start(command, streams);
    if (!pid) return tl::unexpected<base::Error>(pid.error());
    Child child(*pid);
    streams.output.write_end.reset(-1);
    streams.error.write_end.reset(-1);

    base::Completed completed;
    const Clock::time_point end = Clock::now() + command.deadline;
    Clock::time_point next_tick = Clock::now();
    std::array<pollfd, 2> waiting{
        {{streams.output.read_end.get(), POLLIN, 0}, {streams.error.read_end.get(), POLLIN, 0}}};
    while (true) {
        const bool open = waiting[0].fd >= 0 || waiting[1].fd >= 0;
        const int ready = poll(waiting.data(), waiting.size(), open ? tick_milliseconds : 20);
        if (ready > 0 && waiting[0].revents != 0 &&
            !drain(waiting[0].fd, completed.standard_output, output_limit))
            waiting[0].fd = -1;
        if (ready > 0 && waiting[1].revents != 0 &&
            !drain(waiting[1].fd, completed.standard_error, error_limit))
            waiting[1].fd = -1;
        const auto status = open ? std::nullopt : child.ended();
        if (status) {
            completed.exit_code = base::shell_exit_code(*status);
            return completed;
        }
        if (auto go_on = check_interrupted(watch); !go_on)
            return tl::unexpected<base::Error>(go_on.error());
        const Clock::time_point now = Clock::now();
        if (now > end)
            return base::fail(
                fmt::format("did not end within {} s and was killed", command.deadline.count()),
                command.arguments.front(), {}, base::ExitCode::timed_out);
        if (now < next_tick) continue;
        next_tick = now + std::chrono::milliseconds(tick_milliseconds);
        if (watch.tick) watch.tick();
    }
}

}  // namespace batchai::image
