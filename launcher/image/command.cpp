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
#include "base/text.hpp"

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

// Runs in the child between fork and exec, so nothing here may allocate. If exec fails, the pipe
// `failure` tells the parent why.
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
        kill(pid_, SIGKILL);  // in case it has no process group yet
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }

    // Returns the child's wait status once it has ended.
    std::optional<int> ended() {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
        pid_ = -1;
        return status;
    }

  private:
    pid_t pid_;
};

// Reads once and keeps the last `keep_last` bytes. Returns false at the end of the stream.
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
    auto failure = TRY(make_pipe());
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) return base::fail(std::strerror(errno), "fork");
    if (child == 0)
        become(argv.data(), streams.output.write_end.get(), streams.error.write_end.get(),
               failure.write_end.get(), parent);
    failure.write_end.reset(-1);
    int code = 0;
    if (read(failure.read_end.get(), &code, sizeof code) != sizeof code) return child;
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
    const auto pid = TRY(start(command, streams));
    Child child(pid);
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
        TRY(check_interrupted(watch));
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

namespace {

enum class Fault {
    unknown,
    no_policy,
    plain_http,
    bad_certificate,
    unauthorized,
    not_found,
    rate_limit,
    wrong_platform,
    unreachable,
};

struct Sign {
    std::string_view words;  // in lower case
    Fault fault;
};

// The first match counts. The order matters: a registry may say "unauthorized" where it means "not
// found", and "pinging container registry" precedes every network fault.
constexpr std::array signs = {
    Sign{"policy.json", Fault::no_policy},
    Sign{"server gave http response to https client", Fault::plain_http},
    Sign{"x509:", Fault::bad_certificate},
    Sign{"toomanyrequests", Fault::rate_limit},
    Sign{"too many requests", Fault::rate_limit},
    Sign{"no image found in manifest list for architecture", Fault::wrong_platform},
    Sign{"no image found in image index for architecture", Fault::wrong_platform},
    Sign{"manifest unknown", Fault::not_found},
    Sign{"name unknown", Fault::not_found},
    Sign{"repository name not known", Fault::not_found},
    Sign{"no descriptor found for reference", Fault::not_found},
    Sign{"no such file or directory", Fault::not_found},
    Sign{"unable to retrieve auth token", Fault::unauthorized},
    Sign{"unauthorized", Fault::unauthorized},
    Sign{"authentication required", Fault::unauthorized},
    Sign{"invalid username/password", Fault::unauthorized},
    Sign{"is denied", Fault::unauthorized},
    Sign{"403 (forbidden)", Fault::unauthorized},
    Sign{"status code 404", Fault::not_found},
    Sign{"not found", Fault::not_found},
    Sign{"no such host", Fault::unreachable},
    Sign{"connection refused", Fault::unreachable},
    Sign{"connection reset", Fault::unreachable},
    Sign{"no route to host", Fault::unreachable},
    Sign{"network is unreachable", Fault::unreachable},
    Sign{"i/o timeout", Fault::unreachable},
    Sign{"tls handshake timeout", Fault::unreachable},
    Sign{"context deadline exceeded", Fault::unreachable},
    Sign{"server misbehaving", Fault::unreachable},
    Sign{"temporary failure in name resolution", Fault::unreachable},
    Sign{"dial tcp", Fault::unreachable},
};

Fault fault_of(std::string_view message) {
    const std::string lower = base::lower(message);
    const auto* const sign = std::find_if(signs.begin(), signs.end(), [&](const Sign& candidate) {
        return lower.find(candidate.words) != std::string::npos;
    });
    return sign == signs.end() ? Fault::unknown : sign->fault;
}

// Go chains errors as "a: b: c". Returns the part from "dial tcp" on, which says what went wrong.
std::string_view reason(std::string_view message) {
    const std::size_t at = message.find("dial tcp");
    return at == std::string_view::npos ? message : message.substr(at);
}

base::Error unauthorized(const Question& question) {
    if (question.credential_source == "none")
        return {fmt::format("{} does not give the image to everybody, or does not have it, and no "
                            "credentials for it were found",
                            question.registry),
                question.image,
                fmt::format("check the name; else give containerSettings.imageSourceRegistry."
                            "credentials in the job file, or `docker login {}`",
                            question.registry),
                base::ExitCode::refused};
    return {fmt::format("{} refuses the credentials from {}", question.registry,
                        question.credential_source),
            question.image, "check user and password, and that this user may read the image",
            base::ExitCode::refused};
}

base::Error not_found(const Question& question, const std::string& message) {
    if (question.registry.empty())
        return {message, question.image, "check the path, and the name behind the colon",
                base::ExitCode::not_found};
    return {fmt::format("{} has no such image", question.registry), question.image,
            question.registry == "docker.io"
                ? "check name and tag; images of other registries begin with the registry's name"
                : "check name and tag",
            base::ExitCode::not_found};
}

}  // namespace

std::string last_message(std::string_view standard_error) {
    const std::string_view all = base::trim(standard_error);
    const std::string_view line = all.substr(all.rfind('\n') + 1);
    constexpr std::string_view key = " msg=\"";
    const std::size_t start = line.find(key);
    if (start == std::string_view::npos) return std::string(line);
    std::string out;
    for (std::size_t at = start + key.size(); at < line.size() && line[at] != '"'; ++at) {
        if (line[at] == '\\' && at + 1 < line.size()) ++at;
        out += line[at];
    }
    return out;
}

base::Error explain(std::string_view standard_error, const Question& question) {
    const std::string message = last_message(standard_error);
    const std::string& registry = question.registry;
    switch (fault_of(message)) {
        case Fault::no_policy:
            return {message, question.image,
                    "install the package containers-common (golang-github-containers-common), "
                    "which has /etc/containers/policy.json",
                    base::ExitCode::failed};
        case Fault::plain_http:
            return {fmt::format("{} does not use TLS", registry), question.image,
                    "the admin adds it to insecure_registries in site.lua, or gives it TLS",
                    base::ExitCode::failed};
        case Fault::bad_certificate:
            return {fmt::format("the certificate of {} cannot be trusted: {}", registry,
                                message.substr(message.find("x509:"))),
                    question.image,
                    fmt::format("put its authority's certificate at /etc/containers/certs.d/{0}/"
                                "ca.crt or ~/.config/containers/certs.d/{0}/ca.crt",
                                registry),
                    base::ExitCode::failed};
        case Fault::unauthorized:
            return unauthorized(question);
        case Fault::not_found:
            return not_found(question, message);
        case Fault::rate_limit:
            return {fmt::format("{} limits the request rate (too many requests)", registry),
                    question.image,
                    fmt::format("wait, or log in: `docker login {}`; credentials now: {}", registry,
                                question.credential_source),
                    base::ExitCode::failed};
        case Fault::wrong_platform:
            return {message, question.image, "take an image that is made for this machine",
                    base::ExitCode::not_found};
        case Fault::unreachable:
            return {
                fmt::format("{} cannot be reached from this host: {}", registry, reason(message)),
                question.image,
                "is the registry's name right, and does the way to it need a proxy "
                "(HTTPS_PROXY)?",
                base::ExitCode::failed};
        case Fault::unknown:
            break;
    }
    return {message.empty() ? "skopeo failed without a message" : "skopeo: " + message,
            question.image,
            {},
            base::ExitCode::failed};
}

}  // namespace batchai::image
