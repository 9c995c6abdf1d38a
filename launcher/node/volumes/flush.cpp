// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/flush.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "node/reply.hpp"
#include "node/volumes/rclone.hpp"

namespace batchai::node {

Apart::Apart(const std::function<int()>& work) {
    auto child = base::Child::fork(work, true);
    if (child)
        child_ = std::move(*child);
    else
        result_ = EAGAIN;
}

Apart::~Apart() {
    if (!child_) return;
    child_->signal(SIGKILL);
    if (!child_->ended()) child_->release();
}

std::optional<int> Apart::result_by(Clock::time_point end) {
    if (result_ || !child_) return result_;
    const auto status = child_->ended_by(end);
    if (status) result_ = WIFEXITED(*status) ? WEXITSTATUS(*status) : EIO;
    return result_;
}

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace fs = std::filesystem;

constexpr seconds between_messages{30};
// After this time, files of an rclone that has failed are also copied separately, in addition to
// its own retries.
constexpr seconds rclone_first{5};
// In bytes, of the list of files for one copy. The notes of its files go when the copy is complete,
// so that progress is seen between copies.
constexpr std::size_t longest_list = 60000;

Unwritten unwritten(const RemoteMount& remote) {
    return unwritten_files(remote.slot.cache(), remote.mount->remote->path);
}

Unwritten unwritten(const std::vector<RemoteMount>& mounts) {
    Unwritten all;
    for (const RemoteMount& remote : mounts) {
        Unwritten some = unwritten(remote);
        std::move(some.files.begin(), some.files.end(), std::back_inserter(all.files));
        all.complete = all.complete && some.complete;
    }
    return all;
}

seconds left_until(Clock::time_point end) {
    return std::chrono::ceil<seconds>(end - Clock::now());
}

// Returns the files for one call of rclone: as many as fit, all complete and below one directory.
std::vector<UnwrittenFile> next_copies(const std::vector<UnwrittenFile>& files) {
    std::vector<UnwrittenFile> copies;
    std::size_t length = 0;
    for (const UnwrittenFile& file : files) {
        if (!file.whole || !file.placed || (!copies.empty() && file.top() != copies.front().top()))
            continue;
        // The list has a line for each file, and rclone takes a CR at its end for a part of the
        // end.
        if (file.path.find_first_of("\n\r") != std::string::npos) continue;
        length += file.path.size() + 1;
        if (length > longest_list) break;
        copies.push_back(file);
    }
    return copies;
}

// Returns whether the slot has the cache of an earlier rclone, whose files the present one may not
// know: each has a directory of its own there if a password is among the remote's options.
bool has_earlier_cache(const RemoteMount& remote) {
    std::error_code error;
    const auto caches = base::entries_of(remote.slot.cache() + "/vfs", error);
    return std::count_if(caches.begin(), caches.end(), [](const auto& cache) {
               return cache.path().filename().string().starts_with("volume");
           }) > 1;
}

// Returns whether files of the mount are to be copied without its rclone. A log that cannot be
// read, which may be because it is too long, counts as a failure.
bool needs_help(const RemoteMount& remote) {
    if (has_earlier_cache(remote)) return true;
    const auto log = base::read_file(remote.slot.log(), rclone_log_limit);
    return !log || has_error(*log);
}

void copy_rest(const RemoteMount& remote, Clock::time_point end, const Trace& trace) {
    const auto files = next_copies(unwritten(remote).files);
    if (files.empty() || left_until(end) <= seconds(0)) return;
    std::vector<std::string> names;
    names.reserve(files.size());
    for (const UnwrittenFile& file : files)
        names.push_back(file.path);
    const auto copied = copy_to_volume(remote.environment, *remote.mount->remote,
                                       files.front().top(), {}, names, left_until(end));
    if (!copied) {
        trace.line(fmt::format("{} \"{}\" does not take {} files: {}", remote.mount->kind,
                               remote.mount->name, names.size(), copied.error().what));
        return;
    }
    // The notes would say for ever that the files are not stored, so they are removed.
    std::error_code error;
    for (const UnwrittenFile& file : files)
        fs::remove(file.note, error);
}

}  // namespace

void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory,
                   const std::function<bool()>& all_served) {
    const Trace trace(job_directory);
    seconds limit{0};
    for (const RemoteMount& remote : mounts)
        limit = std::max(limit, seconds(remote.mount->flush_seconds));
    const auto begin = Clock::now();
    const auto end = begin + limit;
    auto next_message = begin + seconds(2);
    milliseconds pause{10};
    while (true) {
        const Unwritten left = unwritten(mounts);
        if (left.files.empty() && left.complete) break;
        const auto now = Clock::now();
        if (now >= end) break;
        if (now >= next_message) {
            next_message += between_messages;
            trace.line(
                fmt::format("waiting until {} files that the job wrote are on remote storage",
                            left.files.size()));
        }
        if (now - begin > rclone_first) {
            const bool all_run = all_served();
            for (const RemoteMount& remote : mounts) {
                if (!all_run || needs_help(remote)) copy_rest(remote, end, trace);
            }
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, milliseconds(500));
    }
}

}  // namespace batchai::node
