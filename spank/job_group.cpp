// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_group.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <functional>

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "spank/job_note.hpp"
#include "spank/slurm.hpp"

namespace batchai::spank {

namespace {

constexpr std::string_view own_name = "/batchai";
constexpr std::size_t longest_text = 4UL << 20U;
// Another step may remove the group between the two steps of entering it.
constexpr int most_tries = 16;
// How long to wait for Slurm's lock.
constexpr int most_looks = 20;
constexpr int between_looks = 10;  // milliseconds
// The clean-up of a job waits up to 20 minutes for the uploads of each of its containers, and then
// ends those that are left (docs/security.md).
constexpr time_t longest_farewell_of_helpers = 24 * 3600L;

// Takes the last component, with the slash before it, off the path.
std::string_view take_last(std::string_view& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string_view::npos) return {};
    const std::string_view last = path.substr(slash);
    path.remove_suffix(last.size());
    return last;
}

// Takes the text up to the separator, or all of it, off the beginning.
std::string_view take_first(std::string_view& text, char separator) {
    const std::string_view first = text.substr(0, text.find(separator));
    text.remove_prefix(std::min(text.size(), first.size() + 1));
    return first;
}

// Reads a file of root's or the kernel's.
std::string text_of(int directory, const char* name) {
    std::string text;
    const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return text;
    std::array<char, 4096> chunk{};
    while (text.size() < longest_text) {
        const ssize_t count = read(file, chunk.data(), chunk.size());
        if (count <= 0) break;
        text.append(chunk.data(), static_cast<std::size_t>(count));
    }
    close(file);
    return text;
}

// Returns false if the group still has processes.
bool removed(const std::string& group) {
    return rmdir(group.c_str()) == 0 || errno == ENOENT;
}

// Since Linux 5.14. Before, what is in the group stays.
void kill_all_in(const std::string& group) {
    const int file = open((group + "/cgroup.kill").c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    if (write(file, "1", 1) != 1) {
        // The next epilog tries again.
    }
    close(file);
}

std::string job_of(const std::string& group) {
    std::string_view job = group;
    take_last(job);
    return std::string(job);
}

// Returns whether the job has groups of steps, so that it runs here again, or still does.
bool has_steps(const std::string& group) {
    DIR* const job = opendir(job_of(group).c_str());
    if (job == nullptr) return false;
    bool found = false;
    while (const dirent* const entry = readdir(job))
        found = found || std::string_view(entry->d_name).starts_with("step_");
    closedir(job);
    return found;
}

// Removes groups of jobs. Slurm makes and removes them while it holds a lock on the group above
// (since 23.02).
class JobRemover {
  public:
    // Returns false if the lock is taken. Waits only once, however many groups there are.
    bool remove_job_of(const std::string& group) {
        const std::string job = job_of(group);
        std::string_view above = job;
        take_last(above);
        const int scope = open(std::string(above).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (scope < 0) return errno == ENOENT;
        while (flock(scope, LOCK_EX | LOCK_NB) != 0) {
            if (looks_left_ == 0) {
                close(scope);
                return false;
            }
            --looks_left_;
            poll(nullptr, 0, between_looks);
        }
        // A group that has steps stays: Slurm removes it after the last of them.
        rmdir(job.c_str());
        close(scope);
        return true;
    }

  private:
    int looks_left_ = most_looks;
};

// A file that says where a group of a job is.
struct GroupNote {
    std::string name;
    std::uint32_t job_id = 0;
    std::string group;
    time_t time = 0;  // of the last step's start or, once the job has ended, of its end
};

std::vector<GroupNote> notes_in(DIR* directory) {
    std::vector<GroupNote> notes;
    while (const dirent* const entry = readdir(directory)) {
        GroupNote note{.name = entry->d_name};
        if (!std::string_view(note.name).ends_with(group_note_suffix)) continue;
        const char* const end = note.name.data() + note.name.size();
        const auto number = std::from_chars(note.name.data(), end, note.job_id);
        if (number.ec != std::errc() || *number.ptr != '.') continue;
        note.group = text_of(dirfd(directory), entry->d_name);
        struct stat status {};
        if (fstatat(dirfd(directory), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        note.time = status.st_mtime;
        // Its writer may not have finished.
        if (note.group.starts_with('/') && note.group.ends_with(own_name))
            notes.push_back(std::move(note));
    }
    return notes;
}

bool write_note(const JobGroup& group) {
    const int file =
        open(group.note.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return false;
    // Each step writes the same.
    const bool written = write(file, group.path.data(), group.path.size()) ==
                         static_cast<ssize_t>(group.path.size());
    close(file);
    if (!written) unlink(group.note.c_str());
    return written;
}

}  // namespace

std::string helper_group_in(std::string_view text) {
    const std::string_view version_2 = "0::";
    while (!text.empty()) {
        std::string_view line = take_first(text, '\n');
        if (!line.starts_with(version_2)) continue;
        line.remove_prefix(version_2.size());
        // The component above is job_N or, from 26.05 on, the job's SLUID.
        const bool of_a_step = take_last(line) == "/slurm" && take_last(line).starts_with("/step_");
        if (!of_a_step || line.size() <= 1) return {};
        return std::string(line) + std::string(own_name);
    }
    return {};
}

std::vector<std::string> places_of_group(std::string_view mountinfo, std::string_view group) {
    std::vector<std::string> places;
    while (!mountinfo.empty()) {
        // "30 23 0:26 ROOT PLACE OPTIONS… - cgroup2 …", see proc_pid_mountinfo(5).
        std::string_view line = take_first(mountinfo, '\n');
        if (line.find(" - cgroup2 ") == std::string_view::npos) continue;
        for (int field = 0; field < 3; ++field)
            take_first(line, ' ');
        std::string_view root = take_first(line, ' ');
        const std::string_view place = take_first(line, ' ');
        if (!root.starts_with('/') || !place.starts_with('/')) continue;
        if (root == "/") root = {};
        if (group.starts_with(root) && group.substr(root.size()).starts_with('/'))
            places.push_back(std::string(place) + std::string(group.substr(root.size())));
    }
    return places;
}

JobGroup helper_group(const std::string& directory, std::uint32_t job_id) {
    const std::string group = helper_group_in(text_of(AT_FDCWD, "/proc/self/cgroup"));
    if (group.empty()) return {};
    for (const std::string& path :
         places_of_group(text_of(AT_FDCWD, "/proc/self/mountinfo"), group)) {
        if (access(job_of(path).c_str(), F_OK) != 0) continue;
        // Several slurmd of a host may share the directory, so the number alone is not enough.
        std::array<char, 48> name{};
        snprintf(name.data(), name.size(), "/%u.%zx", job_id, std::hash<std::string>()(path));
        return {.path = path,
                .procs = path + "/cgroup.procs",
                .note = directory + name.data() + std::string(group_note_suffix)};
    }
    slurm_error(
        "batchai: the control group %s is not mounted here; a step that ends may end the container "
        "of others",
        group.c_str());
    return {};
}

bool enter_group(const JobGroup& group) {
    if (!write_note(group)) {
        // The step must not fail for it: without a note, the group is removed at the end of a step
        // or not at all.
    }
    for (int tries = 0; tries < most_tries; ++tries) {
        if (mkdir(group.path.c_str(), 0755) != 0 && errno != EEXIST) return false;
        const int file = open(group.procs.c_str(), O_WRONLY | O_CLOEXEC);
        const bool entered = file >= 0 && write(file, "0", 1) == 1;
        const int code = errno;
        if (file >= 0) close(file);
        if (entered) return true;
        errno = code;
        if (code != ENOENT && code != ENODEV) return false;
    }
    return false;
}

void leave_group(const JobGroup& group) {
    // The note stays until the epilog: the group of a step that begins just now has it as well.
    if (!removed(group.path) && errno != EBUSY && errno != ENOTEMPTY)
        slurm_error("batchai: cannot remove %s: %s", group.path.c_str(), strerror(errno));
}

void note_end_of_groups(const std::string& directory, std::uint32_t job_id) {
    DIR* const opened = opendir(directory.c_str());
    if (opened == nullptr) return;
    for (const GroupNote& note : notes_in(opened)) {
        if (note.job_id == job_id)
            utimensat(dirfd(opened), note.name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    }
    closedir(opened);
}

void remove_left_groups(const std::string& directory) {
    DIR* const opened = opendir(directory.c_str());
    if (opened == nullptr) return;
    JobRemover jobs;
    for (const GroupNote& note : notes_in(opened)) {
        if (is_noted(directory, note.job_id)) continue;
        if (removed(note.group)) {
            if (jobs.remove_job_of(note.group)) unlinkat(dirfd(opened), note.name.c_str(), 0);
        } else if (time(nullptr) - note.time > longest_farewell_of_helpers &&
                   !has_steps(note.group)) {
            // The user has kept them from ending. The next look finds the group empty.
            kill_all_in(note.group);
        }
    }
    closedir(opened);
}

}  // namespace batchai::spank
