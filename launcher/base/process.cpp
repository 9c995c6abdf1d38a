// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/file_in_memory.hpp"
#include "base/standard_error.hpp"

namespace batchai::base {

namespace {

bool is_ignored(int number) {
    struct sigaction now {};
    return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace

HeldSignals::HeldSignals(std::initializer_list<int> numbers) {
    sigset_t held;
    sigemptyset(&held);
    for (const int number : numbers) {
        // The kernel keeps a signal that is blocked even if it is ignored. These are ignored by
        // nohup, and by shells for what runs in the background of a script.
        const bool is_of_terminal = number == SIGHUP || number == SIGINT || number == SIGQUIT;
        if (!is_of_terminal || !is_ignored(number)) sigaddset(&held, number);
    }
    sigprocmask(SIG_BLOCK, &held, &before_);
    descriptor_.reset(signalfd(-1, &held, SFD_CLOEXEC | SFD_NONBLOCK));
}

HeldSignals::~HeldSignals() {
    sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> HeldSignals::next() const {
    signalfd_siginfo info{};
    if (read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
}

std::optional<int> HeldSignals::next_within(std::chrono::milliseconds time) const {
    pollfd waiting{descriptor_.get(), POLLIN, 0};
    ::poll(&waiting, 1, static_cast<int>(time.count()));
    return next();
}

namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (const std::string& word : words)
        out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
}

void set_signals(Signals signals) {
    // The programs of this project ignore it for themselves.
    ::signal(SIGXFSZ, SIG_DFL);
    if (signals == Signals::inherited) return;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (signals != Signals::unblocked_all_default) return;
    for (int number = 1; number < NSIG; ++number)
        ::signal(number, SIG_DFL);  // signals that cannot be changed have the default anyway
}

// Prepares everything that is needed between fork and exec. Nothing may be allocated there, because
// another thread may have held the lock of the heap at the fork.
class Launch {
  public:
    explicit Launch(const Program& program)
        : program_(program),
          arguments_(pointers(program.arguments)),
          safe_(program.descriptors.size(), -1) {
        if (program.environment) environment_ = pointers(*program.environment);
        for (const Handed& handed : program.descriptors)
            above_all_ = std::max(above_all_, handed.its + 1);
    }

    // Returns only if it fails, and errno says why. `failure` becomes a duplicate that is closed on
    // exec and that no descriptor of the program overwrites.
    void operator()(int& failure) {
        set_signals(program_.signals);
        failure = fcntl(failure, F_DUPFD_CLOEXEC, above_all_);
        if (failure < 0 || !place_descriptors()) return;
        execvpe(arguments_[0], arguments_.data(),
                environment_.empty() ? environ : environment_.data());
    }

  private:
    bool place_descriptors() {
        // All descriptors are duplicated above the program's numbers first, so that none is
        // overwritten while it is still needed.
        for (std::size_t i = 0; i < safe_.size(); ++i) {
            const int ours = program_.descriptors[i].ours;
            const int source = ours < 0 ? open("/dev/null", O_RDWR | O_CLOEXEC) : ours;
            safe_[i] = fcntl(source, F_DUPFD_CLOEXEC, above_all_);
            if (safe_[i] < 0) return false;
        }
        if (program_.closes_all_others &&
            close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
            return false;
        for (std::size_t i = 0; i < safe_.size(); ++i) {
            if (dup2(safe_[i], program_.descriptors[i].its) < 0) return false;
        }
        return true;
    }

    const Program& program_;
    std::vector<char*> arguments_;
    std::vector<char*> environment_;  // with its terminating null; empty: ours
    std::vector<int> safe_;
    int above_all_ = STDERR_FILENO + 1;
};

Error cannot_start(const Program& program, int code) {
    return {.what = fmt::format("cannot be started: {}", std::strerror(code)),
            .where = program.arguments.front(),
            .hint = code == ENOENT ? program.missing_hint : std::string()};
}

void wait_for(pid_t process, int& status) {
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
}

// A process that was started with SIGCHLD ignored never learns how its children end.
void heed_ends_of_children() {
    if (is_ignored(SIGCHLD)) ::signal(SIGCHLD, SIG_DFL);
}

[[noreturn]] void do_and_exit(const std::function<int()>& work) {
    int code = 255;
    try {
        code = work();
    } catch (const std::exception& error) {
        print_error("batchai: {}\n", error.what());
    }
    _exit(code);
}

// Has the kernel kill this child when its parent ends. If the parent has already ended, exits.
void end_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent) _exit(127);
}

}  // namespace

Result<Pipe> make_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        return fail(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
    return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

bool drain(int descriptor, std::string& into, std::size_t limit) {
    std::array<char, 16384> chunk{};
    const ssize_t count = read(descriptor, chunk.data(), chunk.size());
    if (count < 0) return errno == EINTR || errno == EAGAIN;
    if (into.size() < limit) into.append(chunk.data(), static_cast<std::size_t>(count));
    return count > 0;
}

std::string read_to_end(int descriptor) {
    std::string text;
    while (drain(descriptor, text)) {
    }
    return text;
}

Result<Child> Child::start(const Program& program) {
    Launch launch(program);
    Pipe failure = TRY(make_pipe());
    heed_ends_of_children();
    const pid_t parent = getpid();
    const pid_t process = ::fork();
    if (process < 0) return fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (process == 0) {
        if (program.own_group) setpgid(0, 0);
        if (program.ends_with_us) end_with(parent);
        int report = failure.write_end.get();
        launch(report);
        const int code = errno;
        _exit(write(report, &code, sizeof code) < 0 ? 126 : 127);
    }
    failure.write_end.reset(-1);
    int code = 0;
    ssize_t count = 0;
    do {
        count = read(failure.read_end.get(), &code, sizeof code);
    } while (count < 0 && errno == EINTR);
    if (count != sizeof code) return Child(process, program.own_group);
    int status = 0;
    wait_for(process, status);
    return tl::unexpected<Error>(cannot_start(program, code));
}

Result<Child> Child::fork(const std::function<int()>& work, bool ends_with_us) {
    heed_ends_of_children();
    const pid_t parent = getpid();
    const pid_t process = ::fork();
    if (process < 0) return fail(fmt::format("cannot fork: {}", std::strerror(errno)));
    if (process > 0) return Child(process);
    if (ends_with_us) end_with(parent);
    do_and_exit(work);
}

Child& Child::operator=(Child&& other) noexcept {
    if (this == &other) return *this;
    end();
    process_ = std::exchange(other.process_, -1);
    group_ = other.group_;
    return *this;
}

std::optional<int> Child::ended() {
    if (process_ <= 0) return std::nullopt;
    int status = 0;
    const pid_t found = waitpid(process_, &status, WNOHANG);
    if (found == 0 || (found < 0 && errno == EINTR)) return std::nullopt;
    process_ = -1;
    // Other code of this process has already waited for the child.
    if (found < 0) return W_EXITCODE(255, 0);
    return status;
}

std::optional<int> Child::ended_by(std::chrono::steady_clock::time_point deadline) {
    // This polls, because Slurm runs on kernels that have no pidfd_open(2).
    constexpr std::chrono::microseconds longest_pause{20000};
    std::chrono::microseconds pause{100};
    while (true) {
        if (const auto status = ended()) return status;
        if (process_ <= 0 || std::chrono::steady_clock::now() >= deadline) return std::nullopt;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, longest_pause);
    }
}

int Child::wait() {
    int status = W_EXITCODE(255, 0);
    if (process_ > 0) wait_for(process_, status);
    process_ = -1;
    return status;
}

void Child::signal(int number) const {
    if (process_ > 0) kill(process_, number);
}

void Child::end() {
    // A process that has ended is not killed. ended() has reaped it, so its id may already belong
    // to another process.
    if (process_ <= 0 || ended()) return;
    if (group_) kill(-process_, SIGKILL);
    kill(process_, SIGKILL);
    static_cast<void>(wait());
}

Result<void> fork_detached(const std::function<int()>& work) {
    Child between = TRY(Child::fork([&] {
        setsid();
        const pid_t process = ::fork();
        if (process == 0) do_and_exit(work);
        return process < 0 ? 1 : 0;
    }));
    if (between.wait() == 0) return {};
    return fail("cannot fork a process that outlives this one");
}

Error become(const Program& program) {
    Launch launch(program);
    int none = STDERR_FILENO;
    launch(none);
    return cannot_start(program, errno);
}

int shell_exit_code(int wait_status) {
    if (WIFSIGNALED(wait_status)) return 128 + WTERMSIG(wait_status);
    return WEXITSTATUS(wait_status);
}

std::optional<int> signal_in(int exit_code) {
    if (exit_code <= 128 || exit_code > 128 + SIGRTMAX) return std::nullopt;
    return exit_code - 128;
}

namespace {

using Clock = std::chrono::steady_clock;

// A running program and what it has printed.
class Running {
  public:
    Running(const Arguments& arguments, const RunOptions& options, Child child,
            FileDescriptor output, FileDescriptor error)
        : program_(arguments.front()),
          options_(options),
          child_(std::move(child)),
          streams_{std::move(output), std::move(error)},
          end_(Clock::now() + options.deadline),
          next_tick_(Clock::now() + options.tick_period) {}

    Result<Completed> complete() && {
        while (streams_[0].valid() || streams_[1].valid()) {
            TRY(look_at_time());
            TRY(read_on());
        }
        // A program may close its outputs and keep running, so the deadline and the tick also apply
        // to this wait.
        std::optional<int> status;
        while (!(status = child_.ended_by(next_look())))
            TRY(look_at_time());
        return Completed{.exit_code = shell_exit_code(*status),
                         .standard_output = std::move(printed_[0]),
                         .standard_error = std::move(printed_[1])};
    }

  private:
    [[nodiscard]] Clock::time_point next_look() const {
        return options_.tick ? std::min(next_tick_, end_) : end_;
    }

    Result<void> look_at_time() {
        if (Clock::now() >= end_)
            return fail(
                fmt::format("did not end within {} ms and was killed", options_.deadline.count()),
                program_, {}, ExitCode::timed_out);
        if (!options_.tick || Clock::now() < next_tick_) return {};
        next_tick_ = Clock::now() + options_.tick_period;
        return options_.tick();
    }

    Result<void> read_on() {
        std::array<pollfd, 2> waiting{
            {{streams_[0].get(), POLLIN, 0}, {streams_[1].get(), POLLIN, 0}}};
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(next_look() - Clock::now()).count();
        const int ready =
            poll(waiting.data(), waiting.size(), static_cast<int>(std::max<long>(left, 0)));
        if (ready < 0 && errno != EINTR) return fail(std::strerror(errno), program_);
        for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) {
            std::string& text = printed_[i];
            if (waiting[i].revents != 0 && !drain(waiting[i].fd, text)) streams_[i].reset(-1);
            if (text.size() <= options_.output_limit) continue;
            if (!options_.keeps_end)
                return fail(fmt::format("printed more than {} bytes", options_.output_limit),
                            program_);
            text.erase(0, text.size() - options_.output_limit);
        }
        return {};
    }

    const std::string& program_;
    const RunOptions& options_;
    Child child_;
    std::array<FileDescriptor, 2> streams_;
    std::array<std::string, 2> printed_;
    Clock::time_point end_;
    Clock::time_point next_tick_;
};

}  // namespace

std::optional<std::string> variable(const char* name) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') return std::nullopt;
    return value;
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

namespace {

Trace& current_trace() {
    static Trace trace;
    return trace;
}

Result<Completed> run_untraced(const Arguments& arguments, const RunOptions& options) {
    FileDescriptor input;  // none: /dev/null
    // A pipe would have to be written before anybody reads it, and the kernel gives a user who has
    // many pipes new ones that hold little.
    if (!options.standard_input.empty())
        input = TRY(file_in_memory("standard input", options.standard_input));
    Pipe output = TRY(make_pipe());
    Pipe error = TRY(make_pipe());
    Program program{
        .arguments = arguments,
        .environment = options.environment,
        .descriptors = {{input.get(), STDIN_FILENO}, {output.write_end.get(), STDOUT_FILENO}},
        .own_group = options.own_group,
        .ends_with_us = options.ends_with_us,
        .signals = options.signals,
        .missing_hint = options.missing_hint};
    if (!options.show_messages)
        program.descriptors.push_back({error.write_end.get(), STDERR_FILENO});
    Child child = TRY(Child::start(program));
    input.reset(-1);
    output.write_end.reset(-1);
    error.write_end.reset(-1);
    return Running(arguments, options, std::move(child), std::move(output.read_end),
                   std::move(error.read_end))
        .complete();
}

}  // namespace

void trace_runs(Trace trace) {
    current_trace() = std::move(trace);
}

Result<Completed> run(const Arguments& arguments, const RunOptions& options) {
    if (!current_trace()) return run_untraced(arguments, options);
    const auto begin = std::chrono::steady_clock::now();
    auto completed = run_untraced(arguments, options);
    current_trace()(arguments, completed,
                    std::chrono::duration_cast<std::chrono::milliseconds>(
                        std::chrono::steady_clock::now() - begin));
    return completed;
}

}  // namespace batchai::base
