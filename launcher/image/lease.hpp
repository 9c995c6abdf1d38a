// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"

namespace batchai::image {

// The right to make one file, among all hosts that see a directory: a lock file that is created
// exclusively, names its holder, and is touched as long as the holder lives. It needs no lock
// manager, which shared file systems often lack. A holder that is gone (a process that is dead on
// this host, or one elsewhere that has not touched its file for a minute) loses it to the next.
// Should two take a lost lease at the very same time, both have it: then the file is made twice,
// with the same content, and appears whole by whichever rename is the last.
class Lease {
  public:
    struct Holder {
        std::string host;
        int process = 0;
        std::string token;  // of this one lease

        bool operator==(const Holder&) const = default;
    };

    Lease(Lease&& other) noexcept;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;
    ~Lease();  // gives it back

    // Says that the holder lives; to be called every few seconds. Cheap: does something only when
    // the last time is some seconds ago.
    void renew();

    [[nodiscard]] const std::string& token() const { return holder_.token; }

  private:
    friend class LeaseSeeker;
    Lease(std::string path, Holder holder);

    std::string path_;
    Holder holder_;
    std::chrono::steady_clock::time_point renewed_;
};

// Tries, again and again, to get the lease at a path.
class LeaseSeeker {
  public:
    using Time = std::chrono::steady_clock::time_point;

    explicit LeaseSeeker(std::string path,
                         std::chrono::milliseconds patience = std::chrono::seconds(60))
        : path_(std::move(path)), patience_(patience) {}

    // The lease, or nothing as long as somebody else has it.
    [[nodiscard]] base::Result<std::optional<Lease>> attempt(
        Time now = std::chrono::steady_clock::now());
    // Who had it at the last attempt.
    [[nodiscard]] const Lease::Holder& holder() const { return holder_; }

  private:
    [[nodiscard]] bool is_lost(const Lease::Holder& seen, std::int64_t touched, Time now);
    void break_lease(const Lease::Holder& seen);

    std::string path_;
    std::chrono::milliseconds patience_;
    Lease::Holder holder_;
    std::int64_t touched_ = 0;  // its time of change, as the file system says it
    Time changed_;
};

// Whether nobody holds the lease any more, as far as that can be told at once: no such file, or
// that of a dead process of this host, or one that nobody has touched for a day.
[[nodiscard]] bool is_abandoned(const std::string& path);

}  // namespace batchai::image
