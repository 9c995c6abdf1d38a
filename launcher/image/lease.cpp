// SPDX-License-Identifier: GPL-2.0-or-later
#include "image/lease.hpp"

#include <array>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"

namespace batchai::image {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds renewal{5};
constexpr std::int64_t day_in_nanoseconds = 86400LL * 1000000000LL;

std::int64_t nanoseconds(const timespec& time) {
    return std::int64_t{time.tv_sec} * 1000000000LL + time.tv_nsec;
}

struct Seen {
    base::Holder holder;
    std::int64_t touched = 0;
};

// Opens the file, so that a network file system returns its current state. Returns nothing if the
// file is gone.
std::optional<Seen> look(const std::string& path) {
    const base::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status {};
    if (!file.valid() || fstat(file.get(), &status) != 0) return std::nullopt;
    std::array<char, 512> text{};
    const ssize_t count = read(file.get(), text.data(), text.size());
    if (count < 0) return std::nullopt;
    return Seen{base::Holder::parse({text.data(), static_cast<std::size_t>(count)}),
                nanoseconds(status.st_mtim)};
}

}  // namespace

Lease::Lease(std::string path, base::Holder holder)
    : path_(std::move(path)), holder_(std::move(holder)), renewed_(Clock::now()) {}

Lease::Lease(Lease&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      holder_(std::move(other.holder_)),
      renewed_(other.renewed_) {}

Lease::~Lease() {
    if (path_.empty()) return;
    if (is_held()) unlink(path_.c_str());
}

bool Lease::is_held() const {
    const auto seen = look(path_);
    return seen && seen->holder == holder_;
}

void Lease::renew() {
    const auto now = Clock::now();
    if (now - renewed_ < renewal) return;
    renewed_ = now;
    utimensat(AT_FDCWD, path_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

base::Result<std::optional<Lease>> LeaseSeeker::attempt(Time now) {
    base::Holder self = base::Holder::self();
    const auto made = base::create_exclusively(path_, self.text(), 0600);
    if (made) return Lease(path_, std::move(self));
    if (made.error().exit_code != base::ExitCode::refused)
        return tl::unexpected<base::Error>(made.error());
    const auto seen = look(path_);
    if (!seen) return std::nullopt;
    if (is_lost(seen->holder, seen->touched, now)) break_lease(seen->holder);
    return std::nullopt;
}

bool LeaseSeeker::is_lost(const base::Holder& seen, std::int64_t touched, Time now) {
    // Only this host's clock is used, because the clocks of hosts differ.
    if (seen != holder_ || touched != touched_) {
        holder_ = seen;
        touched_ = touched;
        changed_ = now;
    }
    return seen.is_gone() || now - changed_ > patience_;
}

void LeaseSeeker::break_lease(const base::Holder& seen) {
    const std::string aside = fmt::format("{}.{}", path_, base::random_uuid());
    if (!base::rename_file(path_, aside)) return;
    const auto moved = look(aside);
    // Another process was quicker and already has a new lease, which was renamed here by mistake.
    // It is put back.
    if (moved && moved->holder != seen && link(aside.c_str(), path_.c_str()) != 0 &&
        errno != EEXIST) {
        static_cast<void>(base::rename_file(aside, path_));
        return;
    }
    unlink(aside.c_str());
}

bool is_abandoned(const std::string& path) {
    const auto seen = look(path);
    if (!seen) return access(path.c_str(), F_OK) != 0;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return seen->holder.is_gone() || nanoseconds(now) - seen->touched > day_in_nanoseconds;
}

}  // namespace batchai::image
