// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_note.hpp"

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::spank {

namespace {

// What all notes of the job begin with.
std::string note_without_node(const std::string& directory, std::uint32_t job_id) {
    return directory + '/' + std::to_string(job_id);
}

std::string note_of(const std::string& directory, std::uint32_t job_id) {
    std::string note = note_without_node(directory, job_id);
    // slurmd has set this in its own environment, where the user has no say.
    if (const char* const node = getenv("SLURMD_NODENAME")) note.append(1, '.').append(node);
    return note;
}

}  // namespace

bool note_job(const std::string& directory, std::uint32_t job_id) {
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) return false;
    const int file = open(note_of(directory, job_id).c_str(),
                          O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return false;
    close(file);
    return true;
}

bool is_noted(const std::string& directory, std::uint32_t job_id) {
    DIR* const opened = opendir(directory.c_str());
    if (opened == nullptr) return false;
    const std::string note = std::to_string(job_id);
    bool found = false;
    while (const dirent* const entry = readdir(opened)) {
        const std::string_view name(entry->d_name);
        found = found || name == note ||
                (name.starts_with(note + '.') && !name.ends_with(group_note_suffix));
    }
    closedir(opened);
    return found;
}

bool take_note_of_job(const std::string& directory, std::uint32_t job_id) {
    const bool of_node = unlink(note_of(directory, job_id).c_str()) == 0;
    // Of a step that began with 0.1.0, or whose slurmd does not say which node it is.
    return unlink(note_without_node(directory, job_id).c_str()) == 0 || of_node;
}

}  // namespace batchai::spank
