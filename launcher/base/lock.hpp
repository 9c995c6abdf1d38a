// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "base/error.hpp"

// Locks between processes. flock(2) works within a host and is released when its process ends.
// Hosts that share a file system may have no lock manager, so between them the lock is a file that
// is created exclusively and names its holder.
namespace batchai::base {

// Returns when a process started, in clock ticks since the machine was started (field 22 of
// /proc/<pid>/stat). It is empty if there is no such process.
[[nodiscard]] std::string start_time(pid_t process);

// Returns the id that the kernel made when the machine was started. It is empty if it cannot be
// read.
[[nodiscard]] std::string boot_id();

// The process that holds a lock. A lock file contains its text, so that others can tell when it has
// ended.
struct Holder {
    std::string boot;
    std::string process_namespace;  // containers that share a kernel have process ids of their own
    pid_t process = 0;
    std::string start_time;  // distinguishes it from a later process with the same id
    std::string host;        // for messages
    std::string token;       // unique to this lock

    bool operator==(const Holder&) const = default;

    [[nodiscard]] static Holder self();
    // Reads the line that text() returns, or that of an earlier version, which has neither host nor
    // token. Returns an empty holder for any other text.
    [[nodiscard]] static Holder parse(std::string_view text);
    // Returns the holder as one line.
    [[nodiscard]] std::string text() const;
    // Returns whether the process is, or was, one of this host since the host was last started.
    [[nodiscard]] bool is_here() const;
    // Returns whether the process is one of this host and has ended. It returns false for a process
    // of another host, because that cannot be known.
    [[nodiscard]] bool is_gone() const;
};

// Holds an exclusive flock(2) on an open file or directory as long as the object exists.
class [[nodiscard]] FileLock {
  public:
    // Waits for the lock. An error names `path`, which is that of the file or directory.
    [[nodiscard]] static Result<FileLock> take(int descriptor, const std::string& path);

    FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    FileLock& operator=(FileLock&&) = delete;
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;
    ~FileLock();

  private:
    explicit FileLock(int descriptor) : descriptor_(descriptor) {}

    int descriptor_;
};

// lock_now() and lock_by() take an exclusive flock(2), which lasts until unlock() or until the last
// descriptor of the open file is closed, also one that a child process has inherited. lock_now()
// returns false, with errno, if it cannot: EWOULDBLOCK if another process has the lock. lock_by()
// waits for that process, and returns false, with errno, if it still has the lock at `end`.
[[nodiscard]] bool lock_now(int descriptor);
[[nodiscard]] bool lock_by(int descriptor, std::chrono::steady_clock::time_point end);
void unlock(int descriptor);

}  // namespace batchai::base
