// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/line_merger.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace batchai::run {

namespace {

// A block without any newline is copied as it is, so that memory use stays bounded.
constexpr std::size_t longest = 1UL << 20U;

// Enough to recognize a file by what it has at the place where reading goes on.
constexpr std::size_t longest_last_seen = 64;

// What is kept of an unfinished line, of which a job may have one for each rank.
constexpr std::size_t longest_held = 64UL << 10U;

base::Result<std::size_t> size_of(int file, const std::string& path) {
    struct stat status {};
    if (fstat(file, &status) != 0) return base::fail(std::strerror(errno), path);
    return static_cast<std::size_t>(status.st_size);
}

// Returns the number of bytes read, or nothing, with errno.
std::optional<std::size_t> read_at(int file, char* to, std::size_t most, std::size_t from) {
    while (true) {
        const ssize_t count = pread(file, to, most, static_cast<off_t>(from));
        if (count >= 0) return static_cast<std::size_t>(count);
        if (errno != EINTR) return std::nullopt;
    }
}

// Returns how many of the bytes may be copied, so that no line of up to 1 MiB is torn. The end of
// the stream is not known before the last time, but a line that ends later must not be torn then
// either.
std::size_t complete_part(std::string_view bytes, bool whole_lines) {
    const std::size_t newline = bytes.rfind('\n');
    const bool full = bytes.size() == longest;
    if (newline == std::string_view::npos) return whole_lines && !full ? 0 : bytes.size();
    return whole_lines || full ? newline + 1 : bytes.size();
}

// Returns where the bytes begin that were written to a file after it was truncated. A task that
// writes without O_APPEND goes on at its old place, and before that the file has a hole.
std::size_t end_of_hole(int file) {
    const off_t data = lseek(file, 0, SEEK_DATA);
    std::size_t at = data > 0 ? static_cast<std::size_t>(data) : 0;
    std::array<char, 4096> block{};
    while (const auto count = read_at(file, block.data(), block.size(), at)) {
        const std::string_view bytes(block.data(), *count);
        const std::size_t first = bytes.find_first_not_of('\0');
        if (first != std::string_view::npos) return at + first;
        if (bytes.empty()) break;
        at += bytes.size();
    }
    return at;
}

}  // namespace

LineMerger::LineMerger(const std::vector<Source>& sources, const LogDirectory& logs, Noted noted,
                       std::chrono::milliseconds patience, Seen seen)
    : logs_(logs), noted_(std::move(noted)), seen_(std::move(seen)), patience_(patience) {
    for (const Source& source : sources)
        sources_.push_back(
            {.path = source.path, .target = {.name = source.target}, .own = {.name = source.own}});
}

base::Result<void> LineMerger::poll(Clock::time_point until) {
    base::Result<void> outcome;
    std::size_t next = 0;
    for (std::size_t i = 0; i < sources_.size(); ++i) {
        const std::size_t number = (next_ + i) % sources_.size();
        if (auto copied = copy(number, false, until); !copied) outcome = std::move(copied);
        if (Clock::now() < until) continue;
        next = (number + 1) % sources_.size();
        break;
    }
    next_ = next;
    if (auto closed = close_target(); !closed) outcome = std::move(closed);
    return outcome;
}

base::Result<void> LineMerger::finish() {
    base::Result<void> outcome;
    for (std::size_t number = 0; number < sources_.size(); ++number) {
        if (auto copied = copy(number, true, Clock::time_point::max()); !copied)
            outcome = std::move(copied);
    }
    if (auto closed = close_target(); !closed) outcome = std::move(closed);
    // A later call cannot write again what the file system has lost.
    if (outcome && lost_) return tl::unexpected(*lost_);
    return outcome;
}

std::vector<std::size_t> LineMerger::truncated() const {
    std::vector<std::size_t> out;
    for (std::size_t number = 0; number < sources_.size(); ++number) {
        if (sources_[number].truncated) out.push_back(number);
    }
    return out;
}

base::Result<void> LineMerger::restore_truncated() const {
    for (const std::size_t number : truncated()) {
        const Growing& source = sources_[number];
        if (source.own.name.empty()) continue;
        const base::FileDescriptor own = TRY(logs_.open(source.own.name));
        base::FileDescriptor restored(
            ::open(source.path.c_str(), O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC));
        if (!restored.valid()) return base::fail(std::strerror(errno), source.path);
        std::string block(longest, '\0');
        std::size_t at = 0;
        while (true) {
            const auto count = read_at(own.get(), block.data(), block.size(), at);
            if (!count) return base::fail(std::strerror(errno), source.own.name);
            if (*count == 0) break;
            if (!base::write_all(restored.get(), std::string_view(block).substr(0, *count)))
                return base::fail(std::strerror(errno), source.path);
            at += *count;
        }
        if (!restored.close()) return base::fail(std::strerror(errno), source.path);
    }
    return {};
}

void LineMerger::Growing::note_read(std::size_t from, std::string_view bytes,
                                    std::size_t complete) {
    held_at = from + complete;
    held = bytes.substr(complete, longest_held);
    if (from + bytes.size() < seen) return;
    const std::size_t begin = seen - last_seen.size();
    last_seen.resize(from > begin ? from - begin : 0);
    last_seen.append(bytes.substr(bytes.size() - std::min(bytes.size(), longest_last_seen)));
    if (last_seen.size() > longest_last_seen)
        last_seen.erase(0, last_seen.size() - longest_last_seen);
    seen = from + bytes.size();
}

base::Result<void> LineMerger::copy(std::size_t number, bool last_time, Clock::time_point until) {
    Growing& source = sources_[number];
    // A look at the path could be answered from what an NFS client remembers. Opening the file asks
    // the server for its size, and O_CREAT asks it whether there is a file.
    const int flags = last_time ? O_RDWR | O_CREAT : O_RDONLY;
    const base::FileDescriptor file(
        ::open(source.path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
    if (!file.valid()) {
        if (errno == ENOENT) return {};
        return base::fail(std::strerror(errno), source.path);
    }
    const std::size_t size = TRY(size_of(file.get(), source.path));
    base::Result<void> outcome;
    if (is_another(source, file.get(), size, last_time)) outcome = begin_again(number, file.get());
    auto copied = copy_from(file.get(), size, number, last_time, until);
    return copied ? outcome : copied;
}

// Returns whether the file no longer has what has been seen of it.
bool LineMerger::is_another(const Growing& source, int file, std::size_t size, bool last_time) {
    if (size < source.seen) return true;
    if (size == source.seen && !last_time) return false;
    // Zeros may be what a file server had not received yet from the task's node.
    if (source.last_seen.find('\0') != std::string::npos) return false;
    std::array<char, longest_last_seen> there{};
    const std::size_t length = source.last_seen.size();
    const auto count = read_at(file, there.data(), length, source.seen - length);
    return count && std::string_view(there.data(), *count) != source.last_seen;
}

// Copies what is still known of the truncated file, and goes on with its new begin.
base::Result<void> LineMerger::begin_again(std::size_t number, int file) {
    Growing& source = sources_[number];
    const std::string held = std::exchange(source.held, {});
    const auto missing = [&](const Copy& copy) {
        if (copy.name.empty() || copy.bytes < source.held_at) return std::string_view();
        return std::string_view(held).substr(std::min(held.size(), copy.bytes - source.held_at));
    };
    base::Result<void> outcome;
    if (auto appended = append_to_own(number, missing(source.own)); !appended)
        outcome = std::move(appended);
    if (auto appended = append_to_target(source, missing(source.target)); !appended)
        outcome = std::move(appended);
    if (source.copied() < source.seen)
        lost_ = base::Error{.what = "a task truncated it before all that was seen of it was copied",
                            .where = source.path};
    const std::size_t begin = end_of_hole(file);
    source.truncated = true;
    source.own.bytes = begin;
    source.target.bytes = begin;
    source.seen = begin;
    source.last_seen.clear();
    source.grown = 0;
    source.without_line = 0;
    source.unfinished_since.reset();
    return outcome;
}

base::Result<void> LineMerger::copy_from(int file, std::size_t size, std::size_t number,
                                         bool last_time, Clock::time_point until) {
    Growing& source = sources_[number];
    const bool whole_lines = sources_.size() > 1 && !last_time;
    const bool due =
        source.unfinished_since && Clock::now() >= *source.unfinished_since + patience_;
    if (size <= source.copied() || (size == source.without_line && !last_time && !due)) return {};
    std::string block(std::min(longest, size - source.copied()), '\0');
    // Trouble with one of the two files does not stop the other one.
    bool to_own = !source.own.name.empty();
    bool to_target = true;
    base::Result<void> outcome;
    do {
        std::size_t from = to_target ? source.target.bytes : source.own.bytes;
        if (to_own) from = std::min(from, source.own.bytes);
        const auto count = read_at(file, block.data(), block.size(), from);
        if (!count) return base::fail(std::strerror(errno), source.path);
        const std::string_view bytes(block.data(), *count);
        const std::size_t complete = complete_part(bytes, whole_lines);
        if (seen_ && from + bytes.size() > source.seen)
            seen_(number, bytes.substr(source.seen - std::min(source.seen, from)));
        source.note_read(from, bytes, complete);
        // One of the files may have more of the bytes, because the disk was full when the other one
        // was to be written, or because it has a part of a line. What a full disk has taken of a
        // block is not written again.
        const auto missing = [&](const Copy& copy, std::size_t length) {
            return bytes.substr(0, length).substr(std::min(length, copy.bytes - from));
        };
        if (to_own) {
            const std::size_t length = due ? bytes.size() : complete;
            if (auto appended = append_to_own(number, missing(source.own, length)); !appended) {
                outcome = std::move(appended);
                to_own = false;
            }
        }
        if (to_target) {
            if (auto appended = append_to_target(source, missing(source.target, complete));
                !appended) {
                outcome = std::move(appended);
                to_target = false;
            }
        }
        if (complete == 0) {
            source.without_line = outcome ? size : 0;
            break;
        }
        // A process that has outlived its step may go on printing.
    } while ((to_own || to_target) && source.copied() < size && Clock::now() < until);
    if (seen_ && size > std::max(source.seen, source.grown)) {
        source.grown = size;
        seen_(number, {});
    }
    if (source.own.name.empty() || source.own.bytes >= size)
        source.unfinished_since.reset();
    else if (due || !source.unfinished_since)
        source.unfinished_since = Clock::now();
    return outcome;
}

base::Result<void> LineMerger::append_to_target(Growing& source, std::string_view bytes) {
    if (bytes.empty()) return {};
    if (!target_.valid() || target_name_ != source.target.name) {
        TRY(close_target());
        target_ = TRY(logs_.append(source.target.name));
        target_name_ = source.target.name;
    }
    const std::size_t written = base::write_until_error(target_.get(), bytes);
    source.target.bytes += written;
    if (written == bytes.size()) return {};
    return base::fail(std::strerror(errno), source.target.name);
}

base::Result<void> LineMerger::close_target() {
    if (!target_.valid() || target_.close()) return {};
    // These may be bytes of any source, and nobody knows how many are missing.
    lost_ = base::Error{.what = std::strerror(errno), .where = target_name_};
    return tl::unexpected(*lost_);
}

base::Result<void> LineMerger::append_to_own(std::size_t number, std::string_view bytes) {
    if (bytes.empty()) return {};
    Growing& source = sources_[number];
    base::FileDescriptor file = TRY(logs_.append(source.own.name));
    const std::uint64_t size = TRY(size_of(file.get(), source.own.name));
    if (!source.own_end) source.own_end = size;
    const std::uint64_t end = *source.own_end;
    // What follows would not be where its notes say that it is.
    if (size < end) return base::fail("has been removed or has lost bytes", source.own.name);
    std::size_t written = base::write_until_error(file.get(), bytes);
    int reason = errno;
    if (!file.close()) {
        reason = errno;
        lost_ = base::Error{.what = std::strerror(reason), .where = source.own.name};
        // Nobody else writes to this file, so its size says what has arrived.
        file = TRY(logs_.append(source.own.name));
        const std::uint64_t left = TRY(size_of(file.get(), source.own.name));
        written = std::min<std::uint64_t>(written, left - std::min(left, end));
    }
    if (noted_ && written > 0) noted_(number, end, written);
    source.own.bytes += written;
    *source.own_end += written;
    if (written == bytes.size()) return {};
    return base::fail(std::strerror(reason), source.own.name);
}

}  // namespace batchai::run
