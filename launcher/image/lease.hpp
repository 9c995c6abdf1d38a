// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/lock.hpp"

namespace batchai::image {

// The right to make one file, exclusive among all hosts that see its directory. It is a lock file
// that is created exclusively, names its holder, and is touched as long as the holder lives. It
// needs no lock manager, which shared file systems often lack. A holder that is gone (a process of
// this host that is dead, or one of another host that has not touched its file for a minute) loses
// the lease to the next process. If two processes take a lost lease at the same moment, both have
// it. The file is then made twice, with the same content, and the first one that is complete stays.
class Lease {
  public:
    Lease(Lease&& other) noexcept;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease();  // releases the lease

    // Shows that the holder lives. Must be called every few seconds. A call soon after another one
    // does nothing.
    void renew();

    // Returns whether no other process has taken the lease since.
    [[nodiscard]] bool is_held() const;

    [[nodiscard]] const std::string& token() const { return holder_.token; }

  private:
    friend class LeaseSeeker;
    Lease(std::string path, base::Holder holder);

    std::string path_;
    base::Holder holder_;
    std::chrono::steady_clock::time_point renewed_;
};

// Tries repeatedly to get the lease at a path. A lease that has not been touched for `patience` is
// lost to its holder.
class LeaseSeeker {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit LeaseSeeker(std::string path,
                         std::chrono::milliseconds patience = std::chrono::seconds(60))
        : path_(std::move(path)), patience_(patience) {}

    // Returns the lease, or nothing if another process has it.
    [[nodiscard]] base::Result<std::optional<Lease>> attempt(
        Time now = std::chrono::steady_clock::now());
    // The process that had the lease at the last attempt.
    [[nodiscard]] const base::Holder& holder() const { return holder_; }

  private:
    [[nodiscard]] bool is_lost(const base::Holder& seen, std::int64_t touched, Time now);
    void break_lease(const base::Holder& seen);

    std::string path_;
    std::chrono::milliseconds patience_;
    base::Holder holder_;
    std::int64_t touched_ = 0;  // modification time of the lock file, in nanoseconds
    Time changed_;
};

// Returns whether nobody holds the lease any more, as far as a single look can tell: the file does
// not exist, it belongs to a dead process of this host, or nobody has touched it for a day.
[[nodiscard]] bool is_abandoned(const std::string& path);

}  // namespace batchai::image
