// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/lock.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <thread>

#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/text.hpp"
#include "mpi_bridge/core/process_stat.hpp"

namespace batchai::base {

namespace {

// The pauses grow with the time that has passed, so that a short wait ends at once and a long one
// takes little processor time.
constexpr std::chrono::milliseconds shortest_pause{2};
constexpr std::chrono::milliseconds longest_pause{100};

std::string host_name() {
    std::array<char, 256> name{};
    gethostname(name.data(), name.size() - 1);
    return name.data();
}

std::string process_namespace() {
    std::error_code code;
    const std::filesystem::path link = std::filesystem::read_symlink("/proc/self/ns/pid", code);
    return code ? std::string() : link.string();
}

}  // namespace

std::string start_time(pid_t process) {
    const auto text = mpi_bridge::read_process_stat(std::to_string(process));
    const auto stat = text ? mpi_bridge::parse_process_stat(*text) : std::nullopt;
    return stat ? std::to_string(stat->start) : std::string();
}

std::string boot_id() {
    const auto text = read_file("/proc/sys/kernel/random/boot_id", 4096);
    return text ? std::string(trim(*text)) : std::string();
}

Holder Holder::self() {
    return {.boot = boot_id(),
            .process_namespace = batchai::base::process_namespace(),
            .process = getpid(),
            .start_time = batchai::base::start_time(getpid()),
            .host = host_name(),
            .token = random_uuid()};
}

namespace {

// Stands for a value that is not known, so that each line has the same number of words.
constexpr std::string_view unknown = "-";

std::string word_of(const std::string& value) {
    return value.empty() ? std::string(unknown) : value;
}

std::string value_of(std::string_view word) {
    return word == unknown ? std::string() : std::string(word);
}

}  // namespace

Holder Holder::parse(std::string_view text) {
    const auto words = split(trim(text), ' ');
    if (words.size() != 4 && words.size() != 6) return {};
    Holder holder{.boot = value_of(words[0]),
                  .process_namespace = value_of(words[1]),
                  .process = number_in<pid_t>(words[2]).value_or(0),
                  .start_time = value_of(words[3]),
                  .host = {},
                  .token = {}};
    if (holder.process <= 0) return {};
    if (words.size() == 6) {
        holder.host = value_of(words[4]);
        holder.token = value_of(words[5]);
    }
    return holder;
}

std::string Holder::text() const {
    return fmt::format("{} {} {} {} {} {}\n", word_of(boot), word_of(process_namespace), process,
                       word_of(start_time), word_of(host), word_of(token));
}

bool Holder::is_here() const {
    return process > 0 && !boot.empty() && boot == boot_id() &&
           process_namespace == batchai::base::process_namespace();
}

bool Holder::is_gone() const {
    if (!is_here()) return false;
    if (kill(process, 0) != 0 && errno == ESRCH) return true;
    // The time is empty if /proc hides the processes of other users.
    const std::string now = batchai::base::start_time(process);
    return !now.empty() && !start_time.empty() && now != start_time;
}

Result<FileLock> FileLock::take(int descriptor, const std::string& path) {
    while (flock(descriptor, LOCK_EX) != 0) {
        // Without the lock, two processes would change what it protects at the same time.
        if (errno != EINTR)
            return fail(fmt::format("cannot be locked: {}", std::strerror(errno)), path);
    }
    return FileLock(descriptor);
}

FileLock::~FileLock() {
    if (descriptor_ >= 0) unlock(descriptor_);
}

bool lock_now(int descriptor) {
    return flock(descriptor, LOCK_EX | LOCK_NB) == 0;
}

void unlock(int descriptor) {
    flock(descriptor, LOCK_UN);
}

bool lock_by(int descriptor, std::chrono::steady_clock::time_point end) {
    using std::chrono::milliseconds;
    const auto begin = std::chrono::steady_clock::now();
    while (!lock_now(descriptor)) {
        if (errno != EWOULDBLOCK && errno != EINTR) return false;
        const auto now = std::chrono::steady_clock::now();
        if (now >= end) return false;
        const auto pause = std::chrono::duration_cast<milliseconds>(now - begin) / 32;
        std::this_thread::sleep_for(std::clamp(pause, shortest_pause, longest_pause));
    }
    return true;
}

}  // namespace batchai::base
