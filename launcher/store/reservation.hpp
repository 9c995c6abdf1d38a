// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "record/job_files.hpp"
#include "store/records.hpp"

// The marker ".reserved.<token>" in a job's directory says which process is about to create the
// job.

namespace batchai::store {

[[nodiscard]] std::string marker_name(std::string_view token);

// Returns the text that names this process as the holder (see base::Holder).
[[nodiscard]] std::string marker_text();

// Returns whether the process that wrote this marker is certainly gone, or the marker is from
// another host or boot and older than an hour. A text that is not a marker is treated like one from
// another host.
[[nodiscard]] bool is_abandoned(std::string_view text, std::filesystem::file_time_type written);

// Claims the directory of the reservation `token` by renaming its marker. Returns true for exactly
// one caller, who may then move the directory.
[[nodiscard]] bool claim(const std::filesystem::path& directory, std::string_view token);

// Removes an abandoned reservation. Returns false if the directory holds a job, or a reservation
// whose process may still be alive.
[[nodiscard]] base::Result<bool> reclaim(const std::filesystem::path& home,
                                         const std::filesystem::path& directory);

// Reserves a job's name and directory before the submission, because the plan and the batch script
// contain the directory's path. The job does not exist for list and show until commit(). A
// reservation that ends without commit() is removed, so that a rejected submission leaves nothing
// behind.
//
// How two processes are kept apart: a directory that already holds the marker ".reserved.<uuid>" is
// renamed to jobs/<name>. rename(2) refuses to replace a directory that is not empty, so exactly
// one of two processes wins, also on NFS. The marker names the process. The next Store::reserve()
// of the same name takes the name over if that process is gone (on the same host and boot there is
// no such process, or another one with its id), or if the marker is from another host or boot and
// older than an hour.
//
// Has one owner and is used by one thread. Move-only.
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

    // Returns where to put plan.json, batch.sh and secrets.json. attempts/ and shared/ already
    // exist.
    [[nodiscard]] const record::JobFiles& files() const { return files_; }

    // Makes the job visible with this record (job.key must be the reserved one). On an error the
    // reservation is kept.
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
