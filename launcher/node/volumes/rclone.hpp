// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"

// Where rclone keeps what a job has written until the storage has it, on the node's own disk:
// <job temp>/.volumes/<index of the mount>/<slot>/{cache,log}. One sandbox at a time has a slot.
// One that died leaves its slot to the next sandbox of the job, whose rclone then writes what is
// still in it.

namespace batchai::node {

class CacheSlot {
  public:
    // The first slot below `job_temp` that nobody has.
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
    // Also held by the rclone of the slot: it outlives this process by some milliseconds.
    base::FileDescriptor lock_;
};

// A file that the storage does not have, or not as it was written last.
struct UnwrittenFile {
    std::string path;   // below the volume's top
    std::string local;  // where its bytes are
    std::string note;   // rclone's, which says that it is not written
    bool whole = true;  // false: only what was written is there, not what was not touched

    // The directory in which `path` leads to `local`.
    [[nodiscard]] std::string top() const {
        return local.substr(0, local.size() - path.size() - 1);
    }
    bool operator==(const UnwrittenFile&) const = default;
};

// `remote_path` is the RemoteVolume's. Files that a process still has open for writing are among
// them.
[[nodiscard]] std::vector<UnwrittenFile> unwritten_files(const std::string& cache,
                                                         const std::string& remote_path);

// What rclone is told, and what it says. The storage is the remote "volume" of each call, described
// by environment variables: nothing of it is in a file, and a credential is in no argument.

// The descriptor under which rclone finds the mounted FUSE device.
inline constexpr int rclone_fuse_descriptor = 3;

// argv of the rclone that serves a mount, in the foreground.
[[nodiscard]] base::Arguments serve_arguments(const plan::Mount& mount, const std::string& cache);

// The whole environment of any rclone for this storage. Reads the credential, and calls rclone to
// encode it where the backend wants that.
[[nodiscard]] base::Result<base::Environment> rclone_environment(const plan::RemoteVolume& remote,
                                                                 const std::string& job_directory);

// The same from a credential as the backend wants it.
[[nodiscard]] base::Environment remote_environment(const plan::RemoteVolume& remote,
                                                   const std::string& credential);

// Copies files below `source` (all, when none is named) to `directory` below the volume's top.
[[nodiscard]] base::Result<void> copy_to_volume(const base::Environment& environment,
                                                const plan::RemoteVolume& remote,
                                                const std::string& source,
                                                const std::string& directory,
                                                const std::vector<std::string>& files,
                                                std::chrono::seconds deadline);

// The last error in rclone's log, or its last line; empty for an empty log.
[[nodiscard]] std::string complaint_of(std::string_view log);

// What the user or the admin can do about it; may be empty.
[[nodiscard]] std::string advice_on(std::string_view complaint);

}  // namespace batchai::node
