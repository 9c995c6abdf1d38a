// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/flush.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/lock.hpp"
#include "base/text.hpp"
#include "node/reply.hpp"
#include "node/volumes/rclone.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"

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
// After this time, files are also copied separately, in addition to rclone's own retries.
constexpr seconds rclone_first{5};
// In bytes. A copy reads its list of files from a pipe, whose buffer must hold the whole list.
constexpr std::size_t longest_list = 60000;

std::vector<UnwrittenFile> unwritten(const RemoteMount& remote) {
    return unwritten_files(remote.slot.cache(), remote.mount->remote->path);
}

std::size_t count_unwritten(const std::vector<RemoteMount>& mounts) {
    std::size_t count = 0;
    for (const RemoteMount& remote : mounts)
        count += unwritten(remote).size();
    return count;
}

seconds left_until(Clock::time_point end) {
    return std::chrono::ceil<seconds>(end - Clock::now());
}

// Returns the files for one call of rclone: as many as fit, all complete and below one directory.
std::vector<UnwrittenFile> next_copies(const std::vector<UnwrittenFile>& files) {
    std::vector<UnwrittenFile> copies;
    std::size_t length = 0;
    for (const UnwrittenFile& file : files) {
        if (!file.whole || (!copies.empty() && file.top() != copies.front().top())) continue;
        length += file.path.size() + 1;
        if (length > longest_list) break;
        copies.push_back(file);
    }
    return copies;
}

void copy_rest(const RemoteMount& remote, Clock::time_point end, const Trace& trace) {
    const auto files = next_copies(unwritten(remote));
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

std::string list_of(const std::vector<UnwrittenFile>& files) {
    std::string text;
    constexpr std::size_t shown = 5;
    for (std::size_t i = 0; i < std::min(files.size(), shown); ++i)
        text += (i == 0 ? "" : ", ") + files[i].path;
    if (files.size() > shown) text += fmt::format(" and {} more", files.size() - shown);
    return text;
}

// Copies the files to `directory` and returns the number of those that could be saved.
std::size_t save(const std::vector<UnwrittenFile>& files, const fs::path& directory) {
    std::size_t saved = 0;
    for (const UnwrittenFile& file : files) {
        std::error_code error;
        const fs::path target = directory / file.path;
        fs::create_directories(target.parent_path(), error);
        if (!error &&
            fs::copy_file(file.local, target, fs::copy_options::overwrite_existing, error))
            ++saved;
    }
    return saved;
}

// The job and the volume to which a slot belongs.
struct Label {
    std::string job_directory;
    std::string volume;  // for messages
    std::string target;
    std::string remote_path;
};

constexpr const char* label_name = "/label";

void save_and_tell(const std::vector<UnwrittenFile>& files, const Label& label) {
    if (files.empty()) return;
    const fs::path directory =
        record::JobFiles(label.job_directory).unsaved(node_name()) / fs::path(label.target);
    const std::size_t saved = save(files, directory);
    const std::string text =
        fmt::format("{} has not got {} files that the job wrote ({}); {} of them are saved in {}",
                    label.volume, files.size(), list_of(files), saved, directory.string());
    Trace(label.job_directory).line(text);
    record::write_failure_note(
        record::JobFiles(label.job_directory),
        {.code = record::data_not_written, .text = text, .node = node_name()});
}

// Returns whether the slot's lock is free, or becomes free by `end`.
bool is_left(const fs::path& slot, Clock::time_point end) {
    const base::FileDescriptor lock(
        open((slot / "lock").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return !lock.valid() || base::lock_by(lock.get(), end);
}

}  // namespace

void flush_volumes(const std::vector<RemoteMount>& mounts, const std::string& job_directory) {
    const Trace trace(job_directory);
    seconds limit{0};
    for (const RemoteMount& remote : mounts)
        limit = std::max(limit, seconds(remote.mount->flush_seconds));
    const auto begin = Clock::now();
    const auto end = begin + limit;
    auto next_message = begin + seconds(2);
    milliseconds pause{10};
    while (const std::size_t files = count_unwritten(mounts)) {
        const auto now = Clock::now();
        if (now >= end) break;
        if (now >= next_message) {
            next_message += between_messages;
            trace.line(fmt::format(
                "waiting until {} files that the job wrote are on remote storage", files));
        }
        if (now - begin > rclone_first) {
            for (const RemoteMount& remote : mounts)
                copy_rest(remote, end, trace);
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, milliseconds(500));
    }
}

void report_unwritten(const std::vector<RemoteMount>& mounts, const std::string& job_directory) {
    for (const RemoteMount& remote : mounts) {
        const plan::Mount& mount = *remote.mount;
        save_and_tell(unwritten(remote),
                      {.job_directory = job_directory,
                       .volume = fmt::format("{} \"{}\"", mount.kind, mount.name),
                       .target = mount.target,
                       .remote_path = mount.remote->path});
    }
}

base::Result<void> label_slot(const CacheSlot& slot, const plan::Mount& mount,
                              const std::string& job_directory) {
    return base::write_atomically(slot.path() + label_name,
                                  fmt::format("{}\n{} \"{}\"\n{}\n{}\n", job_directory, mount.kind,
                                              mount.name, mount.target, mount.remote->path),
                                  0600);
}

bool save_leftovers(const std::string& job_temp, Clock::time_point end) {
    bool all = true;
    std::error_code error;
    for (const auto& mount : fs::directory_iterator(fs::path(job_temp) / ".volumes", error)) {
        for (const auto& slot : fs::directory_iterator(mount.path(), error)) {
            if (!is_left(slot.path(), end)) {
                all = false;
                continue;
            }
            const auto text = base::read_file(slot.path().string() + label_name);
            if (!text) continue;
            const auto lines = base::split(*text, '\n');
            if (lines.size() < 4) continue;
            const Label label{.job_directory = std::string(lines[0]),
                              .volume = std::string(lines[1]),
                              .target = std::string(lines[2]),
                              .remote_path = std::string(lines[3])};
            save_and_tell(unwritten_files((slot.path() / "cache").string(), label.remote_path),
                          label);
        }
    }
    return all;
}

}  // namespace batchai::node
