// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_group.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/job_note.hpp"
#include "spank/slurm.hpp"

namespace batchai::spank {

namespace {

constexpr const char* mount_point = "/sys/fs/cgroup";  // CgroupMountpoint of cgroup.conf
constexpr std::string_view own_name = "/batchai";
constexpr std::string_view note_suffix = ".group";
constexpr std::size_t longest_text = 4096;
// Another step may remove the group between the two steps of entering it.
constexpr int most_tries = 16;

// Takes the last component, with the slash before it, off the path.
std::string_view take_last(std::string_view& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return {};
    const std::string_view last = path.substr(slash);
    path.remove_suffix(last.size());
    return last;
}

// Returns the beginning of a file of root's or the kernel's.
std::string text_of(int directory, const char* name) {
    std::string text;
    const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return text;
    text.resize(longest_text);
    std::size_t length = 0;
    while (length < text.size()) {
        const ssize_t count = read(file, text.data() + length, text.size() - length);
        if (count <= 0) break;
        length += static_cast<std::size_t>(count);
    }
    close(file);
    text.resize(length);
    return text;
}

// Returns false if the group still has processes.
bool removed(const std::string& group) {
    return rmdir(group.c_str()) == 0 || errno == ENOENT;
}

// Slurm makes and removes groups of jobs while it holds this lock (since 23.02).
void remove_job_of(const std::string& group) {
    std::string_view job = group;
    take_last(job);
    std::string_view all = job;
    take_last(all);
    const int scope = open(std::string(all).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scope < 0) return;
    // A group that has steps stays: Slurm removes it after the last of them.
    if (flock(scope, LOCK_EX | LOCK_NB) == 0) rmdir(std::string(job).c_str());
    close(scope);
}

}  // namespace

std::string helper_group_in(std::string_view text) {
    const std::string_view version_2 = "0::";
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        if (!line.starts_with(version_2)) continue;
        line.remove_prefix(version_2.size());
        // The component above is job_N or, from 26.05 on, the job's SLUID.
        const bool of_a_step = take_last(line) == "/slurm" && take_last(line).starts_with("/step_");
        if (!of_a_step || line.size() <= 1) return {};
        return std::string(line) + std::string(own_name);
    }
    return {};
}

std::string helper_group() {
    const std::string group = helper_group_in(text_of(AT_FDCWD, "/proc/self/cgroup"));
    return group.empty() ? group : mount_point + group;
}

bool enter_group(const char* group, const char* procs) {
    for (int tries = 0; tries < most_tries; ++tries) {
        if (mkdir(group, 0755) != 0 && errno != EEXIST) return false;
        const int file = open(procs, O_WRONLY | O_CLOEXEC);
        const bool entered = file >= 0 && write(file, "0", 1) == 1;
        const int code = errno;
        if (file >= 0) close(file);
        if (entered) return true;
        errno = code;
        if (code != ENOENT && code != ENODEV) return false;
    }
    return false;
}

void leave_group(const std::string& group, const std::string& directory, std::uint32_t job_id) {
    if (group.empty() || removed(group)) return;
    const std::string note = directory + '/' + std::to_string(job_id) + std::string(note_suffix);
    const int file =
        open(note.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, group.data(), group.size()) != static_cast<ssize_t>(group.size()))
        slurm_error("batchai: cannot note %s in %s: %s; it will not be removed", group.c_str(),
                    directory.c_str(), strerror(errno));
    if (file >= 0) close(file);
}

void remove_left_groups(const std::string& directory) {
    DIR* const notes = opendir(directory.c_str());
    if (notes == nullptr) return;
    while (const dirent* const entry = readdir(notes)) {
        const std::string_view name = entry->d_name;
        if (!name.ends_with(note_suffix)) continue;
        std::uint32_t job_id = 0;
        const char* const end = name.data() + name.size() - note_suffix.size();
        const auto number = std::from_chars(name.data(), end, job_id);
        if (number.ec != std::errc() || number.ptr != end) continue;
        if (is_noted(directory, job_id)) continue;
        const std::string group = text_of(dirfd(notes), entry->d_name);
        if (!removed(group)) continue;
        remove_job_of(group);
        unlinkat(dirfd(notes), entry->d_name, 0);
    }
    closedir(notes);
}

}  // namespace batchai::spank
