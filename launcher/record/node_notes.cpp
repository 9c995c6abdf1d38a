// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_notes.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/record.hpp"

namespace batchai::record {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t note_limit = 1UL << 20U;
constexpr std::string_view failure_schema = "batchai-failure/v1";
constexpr std::string_view storage_schema = "batchai-storage/v1";

// Returns the oldest file first.
std::vector<fs::path> files_ending_in(const JobFiles& job, std::string_view ending) {
    std::vector<std::pair<fs::file_time_type, fs::path>> found;
    std::error_code error;
    for (const auto& entry : base::entries_of(job.node_logs(), error)) {
        if (!entry.path().filename().string().ends_with(ending)) continue;
        found.emplace_back(entry.last_write_time(error), entry.path());
    }
    std::sort(found.begin(), found.end());
    std::vector<fs::path> paths;
    paths.reserve(found.size());
    for (auto& [time, path] : found)
        paths.push_back(std::move(path));
    return paths;
}

// Calls `take` with the path and the text of each note, the oldest first.
template <typename Take>
void for_each_note(const JobFiles& job, std::string_view ending, const Take& take) {
    for (const fs::path& path : files_ending_in(job, ending)) {
        if (const auto text = base::read_file(path, note_limit)) take(path, *text);
    }
}

base::Result<StorageNote> read_storage_note(const std::string& text) {
    return base::from_record<StorageNote>(text, storage_schema);
}

// What a storage note says under the name of a failure note; see end_storage_note().
FailureNote as_failure(const StorageNote& note) {
    return {.code = data_not_written,
            .text =
                "not all that the job wrote has reached its storage, and no file of the job's "
                "directory could be written to say more; what could not be saved is kept on "
                "the node, in its directory for this user",
            .node = note.node,
            .time = note.until};
}

}  // namespace

bool write_failure_note(const JobFiles& job, const FailureNote& note) {
    if (!base::make_directories(job.node_logs())) return false;
    FailureNote timed = note;
    if (!timed.time) timed.time = base::now();
    return base::write_atomically(job.failure_note(note.node),
                                  base::to_record(timed, failure_schema))
        .has_value();
}

bool has_failure_note(const JobFiles& job, const std::string& node) {
    std::error_code error;
    return fs::exists(job.failure_note(node), error);
}

std::vector<FailureNote> failure_notes(const JobFiles& job) {
    std::vector<FailureNote> notes;
    for_each_note(job, JobFiles::failure_note_ending, [&](const fs::path&, const auto& text) {
        if (auto note = base::from_record<FailureNote>(text, failure_schema))
            notes.push_back(std::move(*note));
        else if (const auto storage = read_storage_note(text))
            notes.push_back(as_failure(*storage));
    });
    return notes;
}

void forget_failure_notes(const JobFiles& job) {
    std::error_code error;
    for (const fs::path& path : files_ending_in(job, JobFiles::failure_note_ending))
        fs::remove(path, error);
}

void write_storage_note(const JobFiles& job, StorageNote& note) {
    const std::string path = job.storage_note(note.node, base::random_uuid()).string();
    const auto written = base::make_directories(job.node_logs()).and_then([&] {
        return base::write_atomically(path, base::to_record(note, storage_schema));
    });
    if (written) note.path = path;
}

void rewrite_storage_note(const StorageNote& note) {
    if (note.path.empty()) return;
    static_cast<void>(base::write_atomically(note.path, base::to_record(note, storage_schema)));
}

void remove_storage_note(const StorageNote& note) {
    std::error_code error;
    if (!note.path.empty()) fs::remove(note.path, error);
}

void end_storage_note(const JobFiles& job, const StorageNote& note, const FailureNote& failure) {
    if (write_failure_note(job, failure)) return remove_storage_note(note);
    fail_storage_note(job, note);
}

void fail_storage_note(const JobFiles& job, const StorageNote& note) {
    if (!note.path.empty())
        static_cast<void>(base::rename_file(note.path, job.failure_note(note.node)));
}

std::vector<StorageNote> storage_notes(const JobFiles& job, const std::string& slurm_job_id) {
    std::vector<StorageNote> notes;
    for_each_note(job, JobFiles::storage_note_ending, [&](const fs::path& path, const auto& text) {
        auto note = read_storage_note(text);
        if (!note || note->slurm_job_id != slurm_job_id) return;
        note->path = path.string();
        notes.push_back(std::move(*note));
    });
    return notes;
}

}  // namespace batchai::record
