// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"

// Until the storage has what a job wrote, rclone keeps it on the node's own disk, in
// <job temp>/.volumes/<index of the mount>/<slot>/{cache,log}. Only one sandbox at a time has a
// slot. If a sandbox dies, the job's next sandbox takes over its slot, and the rclone of that
// sandbox then stores what is still in it.

namespace batchai::node {

// The most, in bytes, that is read of an rclone's log.
inline constexpr std::size_t rclone_log_limit = 64UL << 20U;

class CacheSlot {
  public:
    // Takes the first slot below `job_temp` that is free.
    [[nodiscard]] static base::Result<CacheSlot> take(const base::Root& job_temp,
                                                      std::size_t mount);

    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] std::string cache() const { return path_ + "/cache"; }
    [[nodiscard]] std::string log() const { return path_ + "/log"; }
    [[nodiscard]] int lock() const { return lock_.get(); }

  private:
    CacheSlot(std::string path, base::FileDescriptor lock)
        : path_(std::move(path)), lock_(std::move(lock)) {}

    std::string path_;
    // The rclone of the slot also holds the lock, because it outlives this process by some
    // milliseconds.
    base::FileDescriptor lock_;
};

// A file that the storage does not have at all, or not in its latest version.
struct UnwrittenFile {
    std::string path;   // relative to the top of the volume, if it is placed
    std::string local;  // where its contents are on the node
    std::string note;   // path of rclone's note that it is not stored
    bool whole = true;  // false: only the parts that were written are there
    // False: rclone keeps it for another remote, to which that of the volume leads (as "alias"
    // does), and `path` begins with the path there.
    bool placed = true;

    // Returns the directory below which `local` is at `path`.
    [[nodiscard]] std::string top() const {
        return local.substr(0, local.size() - path.size() - 1);
    }
    bool operator==(const UnwrittenFile&) const = default;
};

struct Unwritten {
    std::vector<UnwrittenFile> files;
    bool complete = true;  // false: the cache cannot be read, and there may be more
};

// Returns the files in the cache of a mount that are not stored, including those that a process
// still has open for writing. `remote_path` is the path of the RemoteVolume.
[[nodiscard]] Unwritten unwritten_files(const std::string& cache, const std::string& remote_path);

// The functions below make rclone's arguments and environment, and read its messages. rclone knows
// the storage as the remote "volume" in every call. The remote is described by environment
// variables, so that none of it is in a file and no credential is in an argument.

// The number under which rclone has the descriptor of the mounted FUSE device.
inline constexpr int rclone_fuse_descriptor = 3;

// Returns the argument vector of the rclone that serves a mount in the foreground.
[[nodiscard]] base::Arguments serve_arguments(const plan::Mount& mount, const std::string& cache);

// Returns the whole environment of any rclone process for this storage. Reads the credential, and
// calls rclone to encode it if the backend requires that.
[[nodiscard]] base::Result<base::Environment> rclone_environment(const plan::RemoteVolume& remote,
                                                                 const std::string& job_directory);

// Returns the same environment for a credential that is already encoded as the backend requires.
[[nodiscard]] base::Environment remote_environment(const plan::RemoteVolume& remote,
                                                   const std::string& credential);

// Copies the files below `source` (all if `files` is empty) to `directory`, which is relative to
// the top of the volume.
[[nodiscard]] base::Result<void> copy_to_volume(const base::Environment& environment,
                                                const plan::RemoteVolume& remote,
                                                const std::string& source,
                                                const std::string& directory,
                                                const std::vector<std::string>& files,
                                                std::chrono::seconds deadline);

// Returns the last error in rclone's log, or its last line if there is none. Empty for an empty
// log.
[[nodiscard]] std::string complaint_of(std::string_view log);

// Returns whether rclone's log has an error.
[[nodiscard]] bool has_error(std::string_view log);

// Returns what the user or the admin can do about the complaint. May be empty.
[[nodiscard]] std::string advice_on(std::string_view complaint);

}  // namespace batchai::node
