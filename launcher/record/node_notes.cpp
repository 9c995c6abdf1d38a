// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_notes.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/record.hpp"

namespace batchai::base {

template <>
struct RecordOf<record::FailureNote> {
    static constexpr auto fields = std::tuple{
        field("code", &record::FailureNote::code), field("text", &record::FailureNote::text),
        field("node", &record::FailureNote::node),
        field("time", &record::FailureNote::time).or_missing()};
};

template <>
struct RecordOf<record::StorageNote> {
    static constexpr auto fields =
        std::tuple{field("node", &record::StorageNote::node),
                   field("slurmJobId", &record::StorageNote::slurm_job_id),
                   field("until", &record::StorageNote::until)};
};

}  // namespace batchai::base

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
    for (const auto& entry : fs::directory_iterator(job.node_logs(), error)) {
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

template <typename Note>
std::vector<Note> read_notes(const JobFiles& job, std::string_view ending,
                             std::string_view schema) {
    std::vector<Note> notes;
    for (const fs::path& path : files_ending_in(job, ending)) {
        const auto text = base::read_file(path, note_limit);
        if (!text) continue;
        auto note = base::from_record<Note>(*text, schema);
        if (!note) continue;
        if constexpr (std::is_same_v<Note, StorageNote>) note->path = path.string();
        notes.push_back(std::move(*note));
    }
    return notes;
}

}  // namespace

void write_failure_note(const JobFiles& job, const FailureNote& note) {
    if (!base::make_directories(job.node_logs())) return;
    FailureNote timed = note;
    if (!timed.time) timed.time = base::now();
    static_cast<void>(base::write_atomically(job.failure_note(note.node),
                                             base::to_record(timed, failure_schema)));
}

bool has_failure_note(const JobFiles& job, const std::string& node) {
    std::error_code error;
    return fs::exists(job.failure_note(node), error);
}

std::vector<FailureNote> failure_notes(const JobFiles& job) {
    return read_notes<FailureNote>(job, JobFiles::failure_note_ending, failure_schema);
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

std::vector<StorageNote> storage_notes(const JobFiles& job, const std::string& slurm_job_id) {
    auto notes = read_notes<StorageNote>(job, JobFiles::storage_note_ending, storage_schema);
    std::erase_if(notes,
                  [&](const StorageNote& note) { return note.slurm_job_id != slurm_job_id; });
    return notes;
}

}  // namespace batchai::record
