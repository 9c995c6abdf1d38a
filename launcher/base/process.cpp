// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::base {

namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
    FileDescriptor read_end;
    FileDescriptor write_end;
};

std::optional<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
    return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (const std::string& word : words)
        out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

struct Pipes {
    Pipe input;
    Pipe output;
    Pipe error;
};

Result<pid_t> start(const Arguments& arguments, const RunOptions& options, const Pipes& pipes) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes.input.read_end.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes.output.write_end.get(), STDOUT_FILENO);
    if (!options.show_messages)
        posix_spawn_file_actions_adddup2(&actions, pipes.error.write_end.get(), STDERR_FILENO);
    const std::vector<char*> argv = pointers(arguments);
    std::vector<char*> variables;
    if (options.environment) variables = pointers(*options.environment);
    pid_t child = -1;
    const int code = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(),
                                  options.environment ? variables.data() : environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code == 0) return child;
    return fail(fmt::format("cannot be started: {}", std::strerror(code)), arguments.front(),
                code == ENOENT ? "is it installed and on PATH?" : "", ExitCode::failed);
}

// How long a program may take, and when somebody is asked whether to wait on.
class Limit {
  public:
    explicit Limit(const RunOptions& options)
        : options_(options),
          end_(Clock::now() + options.deadline),
          ask_at_(options.still_wanted ? Clock::now() + options.patience : end_) {}

    // From this moment on passed() has something to say.
    [[nodiscard]] Clock::time_point next() const { return std::min(ask_at_, end_); }

    // An error once the program shall be ended. `given_up` tells the asked one's from the deadline.
    Result<void> passed(bool& given_up) {
        if (Clock::now() >= end_) return fail("deadline", {}, {}, ExitCode::timed_out);
        if (Clock::now() < ask_at_) return {};
        ask_at_ = end_;
        auto wanted = options_.still_wanted();
        given_up = !wanted;
        return wanted;
    }

  private:
    const RunOptions& options_;
    Clock::time_point end_;
    Clock::time_point ask_at_;
};

// Reads what is there; false at the end of the stream.
bool drain(int descriptor, std::string& into) {
    std::array<char, 16384> chunk{};
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    into.append(chunk.data(), static_cast<std::size_t>(count));
    return count > 0;
}

Result<void> collect(const Pipes& pipes, const RunOptions& options, Limit& limit, bool& given_up,
                     Completed& completed) {
    std::array<pollfd, 2> waiting{
        {{pipes.output.read_end.get(), POLLIN, 0}, {pipes.error.read_end.get(), POLLIN, 0}}};
    const std::array<std::string*, 2> into{&completed.standard_output, &completed.standard_error};
    while (waiting[0].fd >= 0 || waiting[1].fd >= 0) {
        TRY(limit.passed(given_up));
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(limit.next() - Clock::now()).count();
        const int ready =
            poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno != EINTR) return fail(std::strerror(errno));
        for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
            if (waiting[i].revents != 0 && !drain(waiting[i].fd, *into[i])) waiting[i].fd = -1;
            if (into[i]->size() > options.output_limit)
                return fail(fmt::format("printed more than {} bytes", options.output_limit));
        }
    }
    return {};
}

// How the child ended. A program may close its outputs and keep running, so this wait ends too; it
// polls, because pidfd_open(2) is younger than kernels that Slurm runs on.
Result<int> wait_until(pid_t child, Limit& limit, bool& given_up) {
    constexpr std::chrono::microseconds longest_pause{20000};
    std::chrono::microseconds pause{100};
    while (true) {
        int status = 0;
        const pid_t ended = waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        if (ended < 0 && errno != EINTR)
            return fail(fmt::format("cannot wait for its end: {}", std::strerror(errno)));
        TRY(limit.passed(given_up));
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest_pause);
    }
}

// Kills and reaps the child, if it is there: another process may have its number otherwise.
void stop(pid_t child) {
    if (waitpid(child, nullptr, WNOHANG) != 0) return;
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace

int shell_exit_code(int wait_status) {
    if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

Environment environment_without(const std::vector<std::string>& prefixes) {
    Environment kept;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const auto matches = [&](const std::string& prefix) { return text.starts_with(prefix); };
        if (std::none_of(prefixes.begin(), prefixes.end(), matches)) kept.emplace_back(text);
    }
    return kept;
}

Result<Completed> run(const Arguments& arguments, const RunOptions& options) {
    auto input = make_pipe();
    auto output = make_pipe();
    auto error = make_pipe();
    if (!input || !output || !error) return fail(std::strerror(errno), "pipe");
    // The pipe's buffer takes the whole input, so that writing it cannot block.
    if (options.standard_input.size() > 65536) return fail("standard input above 64 KiB");
    if (write(input->write_end.get(), options.standard_input.data(),
              options.standard_input.size()) < 0)
        return fail(std::strerror(errno), "pipe");
    Pipes pipes{std::move(*input), std::move(*output), std::move(*error)};
    Limit limit(options);
    bool given_up = false;
    auto child = start(arguments, options, pipes);
    if (!child) return tl::unexpected<Error>(child.error());
    for (Pipe* pipe : {&pipes.output, &pipes.error})
        pipe->write_end.reset(-1);
    pipes.input.read_end.reset(-1);
    pipes.input.write_end.reset(-1);

    Completed completed;
    const auto status = collect(pipes, options, limit, given_up, completed).and_then([&] {
        return wait_until(*child, limit, given_up);
    });
    if (status) {
        completed.exit_code = shell_exit_code(*status);
        return completed;
    }
    stop(*child);
    if (given_up) return tl::unexpected<Error>(status.error());
    if (status.error().exit_code != ExitCode::timed_out)
        return fail(status.error().what, arguments.front());
    return fail(fmt::format("did not end within {} ms and was killed", options.deadline.count()),
                arguments.front(), {}, ExitCode::timed_out);
}

}  // namespace batchai::base
