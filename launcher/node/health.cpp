// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/health.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "base/stopped_time.hpp"
#include "base/text.hpp"
#include "base/trust.hpp"
#include "base/utf8.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using record::HealthCheck;
using record::HealthOutcome;

constexpr std::size_t kept_output = 4096;
constexpr std::size_t longest_line = 300;
constexpr std::size_t most_programs = 100;
// After a program has ended, what it has printed is there. Its children may keep the pipe open.
constexpr std::chrono::milliseconds rest_of_output{200};
constexpr std::chrono::seconds time_to_die{2};

// The first line that says something, without what could change a terminal.
std::string first_line(std::string_view text) {
    for (const std::string_view line : base::split(text, '\n')) {
        const std::string_view trimmed = base::trim(line).substr(0, longest_line);
        if (trimmed.empty()) continue;
        return base::printable_line(trimmed);
    }
    return {};
}

// The checks see this node as a service would, whatever the user's shell has set.
base::Environment environment_of_checks() {
    base::Environment kept{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                           "LC_ALL=C.UTF-8"};
    for (const char* name :
         {"HOME", "USER", "LOGNAME", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID",
          "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES", "SLURM_JOB_PARTITION", "SLURM_JOB_GPUS",
          "SLURM_GPUS_ON_NODE", "SLURM_NODEID", "SLURMD_NODENAME"}) {
        if (const auto value = base::variable(name))
            kept.push_back(fmt::format("{}={}", name, *value));
    }
    return kept;
}

struct Run {
    std::optional<int> status;  // none: it did not end in time
    std::string output;
    Clock::duration stopped{0};  // how long it was not let run, as in a job that Slurm suspends
};

// Reads what the program prints until it ends.
Run watch(base::Child& child, base::FileDescriptor output, Clock::time_point deadline) {
    Run run;
    base::StoppedTime stopped;
    std::optional<Clock::time_point> last_look;
    while (output.valid() || !run.status) {
        pollfd waiting{output.get(), POLLIN, 0};
        if (::poll(&waiting, 1, 20) > 0 && !base::drain(output.get(), run.output, kept_output))
            output.reset(-1);
        // In this order: a program that has ended is not late because this process was.
        if (!run.status) run.status = child.ended();
        const auto now = Clock::now();
        run.stopped += stopped.look(now);
        if (!run.status && now >= deadline + run.stopped) return run;
        if (last_look && now >= *last_look) return run;
        if (run.status && !last_look) last_look = now + rest_of_output;
    }
    return run;
}

HealthCheck unknown(std::string name, std::string why) {
    return {.name = std::move(name), .outcome = HealthOutcome::unknown, .line = std::move(why)};
}

HealthCheck judged(std::string name, const Run& run, std::chrono::milliseconds limit) {
    HealthCheck check{
        .name = std::move(name), .outcome = HealthOutcome::failed, .line = first_line(run.output)};
    const auto say = [&](const std::string& what) {
        check.line = check.line.empty() ? what : fmt::format("{} ({})", check.line, what);
    };
    if (!run.status) {
        say(fmt::format("did not end within {} s",
                        std::chrono::duration_cast<std::chrono::seconds>(limit).count()));
        return check;
    }
    check.exit_code = base::shell_exit_code(*run.status);
    if (WIFSIGNALED(*run.status)) {
        say(fmt::format("was ended by signal {}", WTERMSIG(*run.status)));
        return check;
    }
    if (*check.exit_code == health_ok) check.outcome = HealthOutcome::ok;
    if (*check.exit_code == health_warning) check.outcome = HealthOutcome::warning;
    if (*check.exit_code == command_not_executable || *check.exit_code == command_not_found)
        check.outcome = HealthOutcome::unknown;
    if (*check.exit_code != health_ok && check.line.empty())
        check.line = fmt::format("exit code {}", *check.exit_code);
    return check;
}

// Adds to `stopped` how long the check was not let run.
HealthCheck run_check(const std::string& directory, const std::string& name,
                      std::chrono::milliseconds limit, Clock::duration& stopped) {
    const std::string path = directory + '/' + name;
    if (const auto who = base::who_else_can_change(path))
        return unknown(name, "is not run: " + *who);
    auto pipe = base::make_pipe();
    if (!pipe) return unknown(name, pipe.error().text());
    const auto begin = Clock::now();
    auto child = base::Child::start({.arguments = {path},
                                     .environment = environment_of_checks(),
                                     .descriptors = {{-1, STDIN_FILENO},
                                                     {pipe->write_end.get(), STDOUT_FILENO},
                                                     {pipe->write_end.get(), STDERR_FILENO}},
                                     .own_group = true,
                                     .ends_with_us = true,
                                     .signals = base::Signals::unblocked_all_default,
                                     .missing_hint = {}});
    if (!child) return unknown(name, child.error().what);
    pipe->write_end.reset(-1);
    const pid_t group = child->process();
    const Run run = watch(*child, std::move(pipe->read_end), begin + limit);
    stopped += run.stopped;
    // What the check has left running ends as well.
    kill(-group, SIGKILL);
    // A process that waits for a dead disk cannot be killed, and must not hold up the others.
    if (!run.status && !child->ended_by(Clock::now() + time_to_die)) child->release();
    HealthCheck check = judged(name, run, limit);
    check.milliseconds = static_cast<int>(
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin - run.stopped)
            .count());
    return check;
}

// Returns the names of the programs, in order. Hidden files, and those that nobody may execute, are
// not programs.
base::Result<std::vector<std::string>> programs_in(const std::string& directory) {
    std::vector<std::string> names;
    std::error_code code;
    for (const auto& entry : base::entries_of(directory, code)) {
        const std::string name = entry.path().filename().string();
        struct stat status {};
        const bool program = stat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
                             (status.st_mode & 0111U) != 0;
        if (program && !name.starts_with('.')) names.push_back(name);
    }
    if (code) return base::fail(fmt::format("cannot be read: {}", code.message()), directory);
    if (names.size() > most_programs)
        return base::fail(fmt::format("has more than {} programs", most_programs), directory);
    std::sort(names.begin(), names.end());
    return names;
}

std::optional<std::string> why_refused(const std::string& directory) {
    struct stat status {};
    if (stat(directory.c_str(), &status) != 0)
        return fmt::format("{}: {}", directory, std::strerror(errno));
    if (!S_ISDIR(status.st_mode)) return fmt::format("{} is not a directory", directory);
    if (auto who = base::who_else_can_change(directory)) return who;
    // In a directory with the sticky bit, others could add programs.
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return fmt::format("{} can be written to by others", directory);
    return std::nullopt;
}

}  // namespace

void tell_syslog(const record::HealthReport& report) {
    const std::string job = base::variable("SLURM_JOB_ID").value_or("?");
    openlog("batchai", LOG_PID, LOG_USER);
    for (const HealthCheck& check : report.checks) {
        if (check.outcome == HealthOutcome::failed)
            syslog(LOG_WARNING, "health check %s failed in job %s: %s", check.name.c_str(),
                   job.c_str(), check.line.c_str());
    }
}

record::HealthReport check_health(const HealthRequest& request) {
    record::HealthReport report;
    if (auto why = why_refused(request.directory)) {
        report.refused = std::move(*why);
        return report;
    }
    const auto programs = programs_in(request.directory);
    if (!programs) {
        report.refused = programs.error().text();
        return report;
    }
    const auto end = Clock::now() + std::chrono::seconds(request.total_seconds);
    Clock::duration stopped{0};
    for (const std::string& name : *programs) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end + stopped - Clock::now());
        if (left.count() <= 0) {
            report.checks.push_back(unknown(
                name,
                fmt::format("is not run: the checks have taken {} s", request.total_seconds)));
            continue;
        }
        report.checks.push_back(
            run_check(request.directory, name,
                      std::min<std::chrono::milliseconds>(
                          left, std::chrono::seconds(request.time_limit_seconds)),
                      stopped));
    }
    return report;
}

}  // namespace batchai::node
