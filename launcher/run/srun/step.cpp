// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/step.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::run {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t message_limit = 4UL << 20U;

sigset_t watched_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD})
        sigaddset(&set, signal);
    return set;
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (const std::string& word : words)
        out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

// Appends what is there; false at the end of the stream.
bool drain(int descriptor, std::string& into) {
    std::array<char, 8192> chunk{};
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (into.size() < message_limit) into.append(chunk.data(), static_cast<std::size_t>(count));
    return count > 0;
}

// srun says this to everyone who wants no binding at a site that has none.
void drop_noise(std::string& messages) {
    constexpr std::string_view noise =
        "srun: cluster configuration lacks support for cpu binding\n";
    const std::size_t at = messages.find(noise);
    if (at != std::string::npos) messages.erase(at, noise.size());
}

}  // namespace

SignalWatch::SignalWatch() {
    const sigset_t set = watched_signals();
    sigprocmask(SIG_BLOCK, &set, nullptr);
    descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

SignalWatch::~SignalWatch() {
    if (descriptor_ >= 0) close(descriptor_);
    const sigset_t set = watched_signals();
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

std::optional<int> SignalWatch::next() const {
    signalfd_siginfo info{};
    if (read(descriptor_, &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

base::Result<pid_t> start_srun(const base::Arguments& arguments,
                               const base::Environment& environment, int error_descriptor) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, error_descriptor, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = -1;
    const int code = posix_spawnp(&child, arguments.front().c_str(), &actions, &attributes,
                                  pointers(arguments).data(), pointers(environment).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (code == 0) return child;
    return base::fail(fmt::format("cannot be started: {}", std::strerror(code)), arguments.front(),
                      "is Slurm's client package installed on the nodes?");
}

base::Result<StepResult> SrunRunner::run(const StepRequest& request) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return base::fail(std::strerror(errno), "pipe");
    const base::FileDescriptor read_end(ends[0]);
    base::FileDescriptor write_end(ends[1]);
    const pid_t child = TRY(start_srun(request.arguments, request.environment, write_end.get()));
    write_end.reset(-1);

    StepResult result;
    const Clock::time_point end = Clock::now() + request.deadline;
    bool overdue = false;
    bool stream_open = true;
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
        std::array<pollfd, 2> waiting{
            {{signals_.descriptor(), POLLIN, 0}, {stream_open ? read_end.get() : -1, POLLIN, 0}}};
        ::poll(waiting.data(), waiting.size(), 250);
        while (const auto signal = signals_.next()) {
            if (*signal == SIGCHLD) continue;
            if (*signal == SIGTERM || *signal == SIGINT) result.stopped_by = signal;
            kill(child, *signal);
        }
        if (waiting[1].revents != 0) stream_open = drain(read_end.get(), result.messages);
        request.tick();
        if (request.deadline.count() > 0 && Clock::now() > end && !overdue) {
            overdue = true;
            // srun passes TERM on and ends its step; KILL would leave the step running.
            kill(child, SIGTERM);
        }
    }
    // What srun still had in the pipe; bounded, should a child of its own hold the other end open.
    pollfd rest{read_end.get(), POLLIN, 0};
    while (stream_open && ::poll(&rest, 1, 1000) > 0)
        stream_open = drain(read_end.get(), result.messages);
    drop_noise(result.messages);
    result.exit_code = base::shell_exit_code(status);
    if (!overdue) return result;
    return base::fail(
        fmt::format("did not end within {} s and was stopped", request.deadline.count()), "srun",
        {}, base::ExitCode::timed_out);
}

std::optional<int> SrunRunner::stopped_by() {
    std::optional<int> stop;
    while (const auto signal = signals_.next()) {
        if (*signal == SIGTERM || *signal == SIGINT) stop = signal;
    }
    return stop;
}

namespace {

constexpr std::chrono::seconds longest_end{5};
constexpr std::chrono::milliseconds between_looks{50};

}  // namespace

base::Result<BackgroundStep> BackgroundStep::start(const base::Arguments& arguments,
                                                   const base::Environment& environment,
                                                   const std::string& messages_path) {
    const base::FileDescriptor messages(
        open(messages_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!messages.valid()) return base::fail(std::strerror(errno), messages_path);
    return start_srun(arguments, environment, messages.get()).map([](pid_t srun) {
        return BackgroundStep(srun);
    });
}

BackgroundStep::~BackgroundStep() {
    end();
}

BackgroundStep::BackgroundStep(BackgroundStep&& other) noexcept
    : srun_(std::exchange(other.srun_, -1)) {}

BackgroundStep& BackgroundStep::operator=(BackgroundStep&& other) noexcept {
    if (this != &other) {
        end();
        srun_ = std::exchange(other.srun_, -1);
    }
    return *this;
}

bool BackgroundStep::runs() {
    if (srun_ > 0 && waitpid(srun_, nullptr, WNOHANG) != 0) srun_ = -1;
    return srun_ > 0;
}

void BackgroundStep::end() {
    if (!runs()) return;
    kill(srun_, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + longest_end;
    while (runs() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(between_looks);
    if (!runs()) return;
    // Slurm ends its step with the job.
    kill(srun_, SIGKILL);
    waitpid(srun_, nullptr, 0);
    srun_ = -1;
}

}  // namespace batchai::run
