// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/lock.hpp"
#include "record/job_files.hpp"
#include "store/records.hpp"

// The marker ".reserved.<token>" in a job's directory says which process is about to create the
// job.

namespace batchai::store {

[[nodiscard]] std::string marker_name(std::string_view token);

// Returns the text that names this process as the holder (see base::Holder).
[[nodiscard]] std::string marker_text();

// A marker of another host counts as abandoned when it has not been refreshed for this long.
inline constexpr std::chrono::minutes longest_silence{5};

// Returns whether the process that wrote this marker is certainly gone, or is one of another host
// that has not refreshed it for `longest_silence`. Two minutes are enough if the host has our name
// but was started at another time: that is this host before a restart, or another of the same name.
// `age` is the time since the last refresh. A text that is not a marker is treated like one from
// another host.
[[nodiscard]] bool is_abandoned(std::string_view text, std::chrono::seconds age);

// A name that is reserved for a job without a record.
struct Unfinished {
    base::Holder holder;          // empty if that is not known
    std::chrono::seconds age{0};  // since the marker was last refreshed
    bool abandoned = false;

    // Says who makes the job, or that nobody does (ExitCode::not_found). `job` is its name.
    [[nodiscard]] base::Error error(std::string_view job) const;
};

// Returns nothing if the directory has a record, or no marker.
[[nodiscard]] std::optional<Unfinished> unfinished(const std::filesystem::path& directory);

// Ends what the process of an abandoned reservation has left elsewhere. If it fails, the directory
// is left alone.
using EndLeftover = std::function<base::Result<void>(const record::JobFiles& files)>;

// Claims the directory of the reservation `token` by renaming its marker. Returns true for exactly
// one caller, who may then move the directory.
[[nodiscard]] bool claim(const std::filesystem::path& directory, std::string_view token);

// Removes an abandoned reservation, after what was left elsewhere has been ended. Of several
// processes exactly one does both. Returns false for the others, and if the directory holds a job,
// or a reservation whose process may still be alive.
[[nodiscard]] base::Result<bool> reclaim(const std::filesystem::path& home,
                                         const std::filesystem::path& directory,
                                         const EndLeftover& end_leftover);

// Reserves a job's name and directory before the submission, because the plan and the batch script
// contain the directory's path. The job does not exist for list and show until commit(). A
// reservation that ends without commit() is removed, so that a rejected submission leaves nothing
// behind.
//
// How two processes are kept apart: a directory that already holds the marker ".reserved.<uuid>" is
// renamed to jobs/<name>. rename(2) refuses to replace a directory that is not empty, so exactly
// one of two processes wins, also on NFS. The marker names the process. The next Store::reserve()
// of the same name takes the name over if that process is gone (on the same host and boot there is
// no such process, or another one with its id), or if the marker is from another host, or another
// boot, and has not been refreshed for minutes. A process that was only slow then finds its marker
// gone: refresh() and commit() fail, and no job of it has started by then.
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

    // Says that this process still works on the job. Must be called at least every two minutes.
    // Fails if another process has taken the name over.
    [[nodiscard]] base::Result<void> refresh();

    // Makes the job visible with this record (job.key must be the reserved one). On an error the
    // reservation is kept.
    [[nodiscard]] base::Result<void> commit(const Job& job);

  private:
    friend class Store;
    [[nodiscard]] tl::unexpected<base::Error> lost() const;
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
    std::chrono::steady_clock::time_point refreshed_ = std::chrono::steady_clock::now();
};

}  // namespace batchai::store
