// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/job_note.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::spank {

namespace {

std::string note_of(const std::string& directory, std::uint32_t job_id) {
    return directory + '/' + std::to_string(job_id);
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
    return access(note_of(directory, job_id).c_str(), F_OK) == 0;
}

bool take_note_of_job(const std::string& directory, std::uint32_t job_id) {
    return unlink(note_of(directory, job_id).c_str()) == 0;
}

}  // namespace batchai::spank
