// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "record/job_files.hpp"
#include "store/records.hpp"

// The file ".reserved.<token>" in a job's directory: who is about to create the job.

namespace batchai::store {

[[nodiscard]] std::string marker_name(std::string_view token);

// Boot, host, process and its start time as text.
[[nodiscard]] std::string marker_text();

// Whether the process that wrote this marker is certainly gone, or the marker is from another host
// or boot and older than an hour. Text that is no marker counts as from elsewhere.
[[nodiscard]] bool is_abandoned(std::string_view text, std::filesystem::file_time_type written);

// Takes the directory from the reservation `token` by renaming its marker: true for exactly one
// caller, who may then move the directory.
[[nodiscard]] bool claim(const std::filesystem::path& directory, std::string_view token);

// Moves an abandoned reservation out of the way; false when the directory holds a job or a
// reservation that may still be alive.
[[nodiscard]] base::Result<bool> reclaim(const std::filesystem::path& home,
                                         const std::filesystem::path& directory);

// A job's name and directory, taken before submission, because the plan and the batch script name
// the directory. The job does not exist for list and show until commit(); a reservation that ends
// without it is removed, so that a rejected submission leaves nothing.
//
// How it is made safe: a directory that already holds the marker ".reserved.<uuid>" is renamed to
// jobs/<name>; rename(2) refuses to replace a directory that is not empty, so of two processes
// exactly one wins, also on NFS. The marker names the process. If that process is gone (same boot
// of the same host, but no such process, or another one with its number), or the marker is from
// elsewhere and older than an hour, the next reserve_job() of that name takes the place.
//
// One owner, one thread. Move-only.
class JobReservation {
  public:
    JobReservation(JobReservation&& other) noexcept
        : files_(std::move(other.files_)),
          key_(std::move(other.key_)),
          token_(std::exchange(other.token_, {})),
          home_(std::move(other.home_)) {}
    JobReservation& operator=(JobReservation&&) = delete;
    JobReservation(const JobReservation&) = delete;
    JobReservation& operator=(const JobReservation&) = delete;
    ~JobReservation();

    // Where to put plan.json, batch.sh, secrets.json; attempts/ and shared/ are there already.
    [[nodiscard]] const record::JobFiles& files() const { return files_; }

    // Makes the job visible with this record (job.key must be the reserved one). On an error the
    // reservation still stands.
    [[nodiscard]] base::Result<void> commit(const Job& job);

  private:
    friend class Store;
    JobReservation(record::JobFiles files, JobKey key, std::string token,
                   std::filesystem::path home)
        : files_(std::move(files)),
          key_(std::move(key)),
          token_(std::move(token)),
          home_(std::move(home)) {}

    record::JobFiles files_;
    JobKey key_;
    std::string token_;  // empty once committed or moved from
    std::filesystem::path home_;
};

}  // namespace batchai::store
