// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/retry.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include "base/process.hpp"
#include "plan/retry.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;

}  // namespace

bool wants(const plan::Retry& retry, const AttemptEnd& end) {
    switch (end.by) {
        case EndedBy::node:
            return plan::retries_on(retry, "nodeFailure");
        case EndedBy::preemption:
            return plan::retries_on(retry, "preemption");
        case EndedBy::time_limit:
            return plan::retries_on(retry, "timeout");
        case EndedBy::hang:
            return plan::retries_on(retry, "hang");
        case EndedBy::slow:
            return plan::retries_on(retry, "slow");
        case EndedBy::program:
        case EndedBy::memory:
            return plan::retries_on_exit_code(retry, end.exit_code);
        case EndedBy::user:
        case EndedBy::administrator:
        case EndedBy::requeue:
        case EndedBy::node_setup:
        case EndedBy::preparation:
        case EndedBy::health:
        case EndedBy::storage:
        case EndedBy::start:
        case EndedBy::unknown:
            break;
    }
    return false;
}

bool leaves_time(const std::optional<base::Time>& start, const std::optional<base::Time>& end,
                 base::Time now) {
    return !start || !end || *end - now >= now - *start;
}

std::optional<std::string> why_not_again(const plan::Retry& retry, const AttemptEnd& end,
                                         const record::RetryCount& count) {
    if (!wants(retry, end)) return std::string();
    if (count.retries >= retry.max)
        return fmt::format("it has been run again {}, and \"retry.max\" is {}",
                           count.retries == 1 ? "once" : fmt::format("{} times", count.retries),
                           retry.max);
    if (!retry.progress_directory.empty() &&
        count.without_progress >= retry.attempts_without_progress)
        return fmt::format("the last {} written nothing to {}",
                           count.without_progress == 1
                               ? "attempt has"
                               : fmt::format("{} attempts have", count.without_progress),
                           retry.progress_directory);
    return std::nullopt;
}

record::RetryCount counted(record::RetryCount count, int next_attempt,
                           const std::string& progress) {
    count.attempt = next_attempt;
    ++count.retries;
    if (!progress.empty()) count.progress = progress;
    return count;
}

std::string progress_in(const std::filesystem::path& directory, std::size_t most) {
    namespace fs = std::filesystem;
    std::error_code error;
    fs::recursive_directory_iterator entry(directory, error);
    // A directory that is not there yet is an empty one.
    if (error == std::errc::no_such_file_or_directory) return "0";
    std::size_t files = 0;
    std::uintmax_t bytes = 0;
    fs::file_time_type newest = fs::file_time_type::min();
    for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
        if (++files > most) return {};
        std::error_code vanished;
        if (!entry->is_regular_file(vanished) || entry->is_symlink(vanished)) continue;
        const auto time = entry->last_write_time(vanished);
        const auto size = entry->file_size(vanished);
        if (vanished) continue;
        newest = std::max(newest, time);
        bytes += size;
    }
    if (error) return {};
    return fmt::format("{} {} {}", files, bytes, newest.time_since_epoch().count());
}

std::string looked_at(const std::function<std::string()>& look,
                      std::chrono::milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    auto pipe = base::make_pipe();
    if (!pipe) return {};
    auto child = base::Child::fork(
        [&] {
            const std::string found = look();
            // It is far shorter than what a pipe takes at once.
            const auto written = ::write(pipe->write_end.get(), found.data(), found.size());
            return written == static_cast<ssize_t>(found.size()) ? 0 : 1;
        },
        true);
    if (!child) return {};
    pipe->write_end.reset(-1);
    const auto status = child->ended_by(end);
    if (!status) {
        child->signal(SIGKILL);
        child->release();
        return {};
    }
    return base::shell_exit_code(*status) == 0 ? base::read_to_end(pipe->read_end.get())
                                               : std::string();
}

}  // namespace batchai::run
