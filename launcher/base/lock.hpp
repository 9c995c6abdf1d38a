// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <sys/types.h>

// Locks between processes. flock(2) locks within a host, and is free as soon as its process is
// gone. Between hosts that share a file system there may be no lock manager: there a file that is
// made exclusively, and names its holder, is the lock.
namespace batchai::base {

// Which run of the machine this is; empty when the kernel does not say.
[[nodiscard]] std::string boot_id();

// The process that holds a lock file, so that others can tell when it is gone.
struct Holder {
    std::string boot;
    std::string process_namespace;  // hosts that share a kernel have process numbers of their own
    pid_t process = 0;
    std::string start_time;  // the number may be given to another process
    std::string host;        // for messages
    std::string token;       // of this one lock; no two have the same

    bool operator==(const Holder&) const = default;

    [[nodiscard]] static Holder self();
    // What text() made, or an earlier version of it that has neither host nor token. Other text
    // gives a holder of which nothing is known.
    [[nodiscard]] static Holder parse(std::string_view text);
    [[nodiscard]] std::string text() const;  // one line
    // Whether it is, or was, a process among ours: of this host, and since the host was started.
    [[nodiscard]] bool is_here() const;
    // Whether it is one that has ended. Of a process elsewhere that is not known.
    [[nodiscard]] bool is_gone() const;
};

// An exclusive flock(2) on an open file or directory, for as long as the object lives. Waits for
// it.
class FileLock {
  public:
    explicit FileLock(int descriptor);
    FileLock(const FileLock&) = delete;
    FileLock& operator=(const FileLock&) = delete;
    ~FileLock();

  private:
    int descriptor_;
};

// The same until the descriptor is closed; false if another process still has the lock at `end`.
[[nodiscard]] bool lock_by(int descriptor, std::chrono::steady_clock::time_point end);

}  // namespace batchai::base
