// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/volumes/unsaved.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/lock.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "node/node_name.hpp"
#include "node/reply.hpp"
#include "node/volumes/rclone.hpp"
#include "record/job_files.hpp"
#include "record/node_notes.hpp"

namespace batchai::node {

namespace {

namespace fs = std::filesystem;

constexpr const char* label_name = "/label";
constexpr std::string_view kept_start = "unsaved-";
constexpr std::chrono::hours longest_kept{14 * 24};

// The start of the names of what is kept of a job.
std::string kept_name(const std::string& job_id) {
    return fmt::format("{}{}-", kept_start, job_id);
}

std::string list_of(const std::vector<UnwrittenFile>& files) {
    std::string text;
    constexpr std::size_t shown = 5;
    for (std::size_t i = 0; i < std::min(files.size(), shown); ++i)
        text += (i == 0 ? "" : ", ") + files[i].path;
    if (files.size() > shown) text += fmt::format(" and {} more", files.size() - shown);
    return text;
}

// Copies to a temporary name first, so that a file that does not fit leaves neither a part of
// itself nor less than an earlier try has saved.
bool save_file(const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (error) return false;
    // A name of its own: the longest names have no room for an ending, and any ending may be that
    // of another file.
    const fs::path part = to.parent_path() / (".batchai-" + base::random_uuid());
    if (fs::copy_file(from, part, error) && base::rename_file(part, to)) return true;
    std::error_code ignored;
    fs::remove(part, ignored);
    return false;
}

// The job and the volume to which a slot belongs.
struct Label {
    std::string job_directory;
    std::string volume;  // for messages
    std::string target;
    std::string remote_path;

    [[nodiscard]] record::JobFiles job() const { return record::JobFiles(job_directory); }
    [[nodiscard]] fs::path place() const { return job().unsaved(node_name()) / fs::path(target); }
};

std::optional<Label> read_label(const std::string& slot) {
    const auto text = base::read_file(slot + label_name);
    if (!text) return std::nullopt;
    const auto lines = base::split(*text, '\n');
    if (lines.size() < 4) return std::nullopt;
    return Label{.job_directory = std::string(lines[0]),
                 .volume = std::string(lines[1]),
                 .target = std::string(lines[2]),
                 .remote_path = std::string(lines[3])};
}

// What is unwritten in a slot, and how much of it could be saved.
struct Saved {
    Unwritten unwritten;
    std::size_t count = 0;

    [[nodiscard]] bool all() const { return unwritten.complete && count == unwritten.files.size(); }
};

Saved save(const std::string& slot, const Label& label) {
    Saved saved{.unwritten = unwritten_files(slot + "/cache", label.remote_path)};
    const fs::path place = label.place();
    for (const UnwrittenFile& file : saved.unwritten.files)
        if (save_file(file.local, place / file.path)) ++saved.count;
    return saved;
}

// Returns whether a failure note says it. `kept` is where the rest is, if that is known.
bool tell(const Saved& saved, const Label& label, const std::string& kept) {
    const auto& [files, complete] = saved.unwritten;
    if (files.empty() && complete) return true;
    std::string text =
        files.empty()
            ? fmt::format("{} may lack files that the job wrote", label.volume)
            : fmt::format(
                  "{} has not got {} files that the job wrote ({}); {} of them are saved in {}",
                  label.volume, files.size(), list_of(files), saved.count, label.place().string());
    if (!complete) text += "; rclone's cache cannot be read to its end";
    if (!kept.empty())
        text += fmt::format("; the others are kept on {} in {} for {} days", node_name(), kept,
                            longest_kept.count() / 24);
    Trace(label.job_directory).line(text);
    return record::write_failure_note(
        label.job(), {.code = record::data_not_written, .text = text, .node = node_name()});
}

base::FileDescriptor open_lock(const fs::path& slot) {
    return base::FileDescriptor(
        open((slot / "lock").c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

// Returns whether the slot's lock is free, or becomes free by `end`.
bool is_left(const fs::path& slot, Clock::time_point end) {
    const base::FileDescriptor lock = open_lock(slot);
    return !lock.valid() || base::lock_by(lock.get(), end);
}

// Moves the slot out of the directory that is about to be removed. Renaming needs no room. Returns
// its new path.
base::Result<std::string> keep(const base::Root& node_root, const std::string& job_id,
                               const fs::path& slot) {
    constexpr int most = 1000;
    for (int number = 1; number <= most; ++number) {
        const std::string name = kept_name(job_id) + std::to_string(number);
        if (renameat2(AT_FDCWD, slot.c_str(), node_root.directory.get(), name.c_str(),
                      RENAME_NOREPLACE) == 0) {
            // Its age is that of this moment.
            utimensat(node_root.directory.get(), name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
            return fmt::format("{}/{}", node_root.path, name);
        }
        if (errno != EEXIST) break;
    }
    return base::fail(fmt::format("has data that could not be saved, and cannot be renamed: {}",
                                  std::strerror(errno)),
                      slot.string());
}

bool is_too_old(const base::Root& node_root, const std::string& name) {
    struct stat status {};
    if (fstatat(node_root.directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    return base::now() - base::Time{std::chrono::seconds(status.st_mtim.tv_sec)} > longest_kept;
}

}  // namespace

bool report_unwritten(const std::vector<RemoteMount>& mounts, const std::string& job_directory) {
    bool told = true;
    for (const RemoteMount& remote : mounts) {
        const plan::Mount& mount = *remote.mount;
        const Label label{.job_directory = job_directory,
                          .volume = fmt::format("{} \"{}\"", mount.kind, mount.name),
                          .target = mount.target,
                          .remote_path = mount.remote->path};
        told = tell(save(remote.slot.path(), label), label, {}) && told;
    }
    return told;
}

base::Result<void> label_slot(const CacheSlot& slot, const plan::Mount& mount,
                              const std::string& job_directory) {
    return base::write_atomically(slot.path() + label_name,
                                  fmt::format("{}\n{} \"{}\"\n{}\n{}\n", job_directory, mount.kind,
                                              mount.name, mount.target, mount.remote->path),
                                  0600);
}

base::Result<bool> save_leftovers(const base::Root& node_root, const std::string& name,
                                  const std::string& job_id, Clock::time_point end) {
    const fs::path directory = fs::path(node_root.path) / name;
    bool all_saved = true;
    bool storing = false;
    const auto unreadable = [](const std::error_code& error) {
        return error && error != std::errc::no_such_file_or_directory;
    };
    std::error_code error;
    for (const auto& mount : base::entries_of(directory / ".volumes", error)) {
        if (unreadable(error)) break;
        for (const auto& slot : base::entries_of(mount.path(), error)) {
            if (!is_left(slot.path(), end)) {
                storing = true;
                continue;
            }
            const auto label = read_label(slot.path().string());
            if (!label) {
                // Without a cache, rclone was never started there.
                std::error_code unknown;
                if (!fs::exists(slot.path() / "cache", unknown) && !unknown) continue;
                static_cast<void>(TRY(keep(node_root, job_id, slot.path())));
                all_saved = false;
                continue;
            }
            const Saved saved = save(slot.path().string(), *label);
            const std::string kept =
                saved.all() ? std::string() : TRY(keep(node_root, job_id, slot.path()));
            static_cast<void>(tell(saved, *label, kept));
            all_saved = all_saved && saved.all();
        }
        if (unreadable(error)) break;
    }
    if (unreadable(error)) return base::system_error("list", directory / ".volumes", error.value());
    if (storing)
        return base::fail("is still being stored by processes of the job", directory.string());
    return all_saved;
}

void save_kept(const base::Root& node_root, const std::string& job_id) {
    const std::string own = kept_name(job_id);
    for (const std::string& name : base::names_in(node_root.directory.get())) {
        if (!name.starts_with(kept_start) || name.starts_with(own)) continue;
        const std::string slot = fmt::format("{}/{}", node_root.path, name);
        const base::FileDescriptor lock = open_lock(slot);
        if (!lock.valid() || !base::lock_now(lock.get())) continue;
        const auto label = read_label(slot);
        std::error_code error;
        // The user may have deleted the job meanwhile.
        const bool has_job = label && fs::is_directory(label->job_directory, error);
        const Saved saved = has_job ? save(slot, *label) : Saved{};
        if (has_job && saved.all()) {
            static_cast<void>(tell(saved, *label, {}));
        } else if (!is_too_old(node_root, name)) {
            continue;
        }
        static_cast<void>(base::remove_tree(node_root.directory.get(), name));
    }
}

}  // namespace batchai::node
