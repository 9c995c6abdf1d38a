// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "node/beneath.hpp"

// Where rclone keeps what a job has written until the storage has it, on the node's own disk:
// <job temp>/.volumes/<index of the mount>/<slot>/{cache,log}. One sandbox at a time has a slot.
// One that died leaves its slot to the next sandbox of the job, whose rclone then writes what is
// still in it.
namespace batchai::node {

class CacheSlot {
  public:
    // The first slot below `job_temp` that nobody has.
    [[nodiscard]] static base::Result<CacheSlot> take(const Root& job_temp, std::size_t mount);

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

}  // namespace batchai::node
