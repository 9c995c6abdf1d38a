// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/logs.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"

namespace batchai::run {

namespace {

constexpr mode_t others_may_write = S_IWGRP | S_IWOTH;

base::Result<struct stat> status_of(int descriptor, const std::string& path) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) return base::fail(std::strerror(errno), path);
    return status;
}

// Somebody else may have made the directory while they could write to the one above it.
base::Result<void> check_ours(int descriptor, const std::string& path) {
    const struct stat status = TRY(status_of(descriptor, path));
    if (status.st_uid != geteuid())
        return base::fail(
            fmt::format("belongs to user {}, not to you (user {})", status.st_uid, geteuid()), path,
            "submit the job again; its logs then have another directory");
    if ((status.st_mode & others_may_write) != 0)
        return base::fail(
            fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U), path,
            fmt::format("chmod go-w {}", path));
    return {};
}

}  // namespace

base::Result<void> LogDirectory::make() {
    base::Root here = TRY(base::make_guarded_directory(path_));
    TRY(check_ours(here.directory.get(), path_));
    directory_ = std::move(here.directory);
    return {};
}

base::Result<void> LogDirectory::make_directory(const std::string& name) const {
    base::FileDescriptor below;
    for (const std::string_view component : base::split(name, '/')) {
        const std::string each(component);
        const int parent = below.valid() ? below.get() : directory_.get();
        if (mkdirat(parent, each.c_str(), 0755) != 0 && errno != EEXIST)
            return base::system_error("make", path_ + "/" + name);
        base::FileDescriptor next = base::open_beneath(parent, each, O_PATH | O_DIRECTORY);
        if (!next.valid()) return base::system_error("open", path_ + "/" + name);
        TRY(check_ours(next.get(), path_ + "/" + name));
        below = std::move(next);
    }
    return {};
}

base::Result<base::FileDescriptor> LogDirectory::append(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    if (!directory_.valid()) return base::fail("its directory has not been made", path);
    // O_NONBLOCK: somebody may have made the file a FIFO while others could write to the directory.
    base::FileDescriptor file = base::open_beneath(
        directory_.get(), name, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK, 0644);
    if (!file.valid()) return base::fail(std::strerror(errno), path);
    if (!S_ISREG(TRY(status_of(file.get(), path)).st_mode))
        return base::fail("is not a regular file", path);
    return file;
}

void LogDirectory::append_text(const std::string& name, std::string_view text) const {
    const auto file = append(name);
    if (file && !base::write_all(file->get(), text)) {
        // Best effort: a full disk must not end the job.
    }
}

namespace {

std::string stamped(std::string_view text) {
    return fmt::format("{} {}\n", base::to_iso8601(base::now()), text);
}

}  // namespace

ExecutionLog::ExecutionLog(const LogDirectory& logs, std::string traces,
                           std::vector<std::string> nodes)
    : logs_(logs),
      traces_(std::move(traces)),
      nodes_(std::move(nodes)),
      collected_(nodes_.size(), 0) {
    // The logs already have the lines of earlier attempts.
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (trace) collected_[i] = trace->size();
    }
}

void ExecutionLog::append(std::size_t node_index, std::string_view lines) const {
    logs_.append_text(nodes_.size() == 1 ? std::string("execution.log")
                                         : fmt::format("execution-{}.log", nodes_[node_index]),
                      lines);
}

void ExecutionLog::all_nodes(std::string_view text) {
    const std::string line = stamped(text);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
        append(i, line);
}

void ExecutionLog::master(std::string_view text) {
    append(0, stamped(text));
}

void ExecutionLog::collect_traces() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (!trace || trace->size() <= collected_[i]) continue;
        append(i, std::string_view(*trace).substr(collected_[i]));
        collected_[i] = trace->size();
    }
}

LineMerger::LineMerger(const std::vector<Source>& sources, const LogDirectory& logs, Noted noted)
    : logs_(logs), noted_(std::move(noted)) {
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
    const auto size = static_cast<std::size_t>(TRY(status_of(file.get(), source.path)).st_size);
    if (size <= source.copied() || (size == source.without_line && !last_time)) return {};
    const bool whole_lines = sources_.size() > 1 && !last_time;
    // A block without any newline is copied as it is, so that memory use stays bounded.
    constexpr std::size_t longest = 1UL << 20U;
    std::string block(std::min(longest, size - source.copied()), '\0');
    // Trouble with one of the two files does not stop the other one.
    bool to_own = !source.own.name.empty();
    bool to_target = true;
    base::Result<void> outcome;
    do {
        std::size_t from = to_target ? source.target.bytes : source.own.bytes;
        if (to_own) from = std::min(from, source.own.bytes);
        const ssize_t count =
            pread(file.get(), block.data(), block.size(), static_cast<off_t>(from));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), source.path);
        std::string_view bytes(block.data(), static_cast<std::size_t>(count));
        const std::size_t last_newline = bytes.rfind('\n');
        if (last_newline != std::string_view::npos) {
            // The end of the stream is not known before the last time, but a line that ends later
            // must not be torn then either.
            if (whole_lines || bytes.size() == longest) bytes = bytes.substr(0, last_newline + 1);
        } else if (whole_lines && bytes.size() < longest) {
            source.without_line = outcome ? size : 0;
            return outcome;
        }
        if (bytes.empty()) return outcome;
        // One of the files may have more of the bytes, because the disk was full when the other one
        // was to be written. What a full disk has taken of a block is not written again.
        const auto missing = [&](const Copy& copy) {
            return bytes.substr(std::min(bytes.size(), copy.bytes - from));
        };
        if (to_own) {
            if (auto appended = append_to_own(number, missing(source.own)); !appended) {
                outcome = std::move(appended);
                to_own = false;
            }
        }
        if (to_target) {
            if (auto appended = append_to_target(source, missing(source.target)); !appended) {
                outcome = std::move(appended);
                to_target = false;
            }
        }
    } while ((to_own || to_target) && Clock::now() < until);
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
    const auto size =
        static_cast<std::uint64_t>(TRY(status_of(file.get(), source.own.name)).st_size);
    if (source.own.bytes == 0) source.own_begin = size;
    const std::uint64_t end = source.own_begin + source.own.bytes;
    // What follows would not be where its notes say that it is.
    if (size < end) return base::fail("has been removed or has lost bytes", source.own.name);
    std::size_t written = base::write_until_error(file.get(), bytes);
    int reason = errno;
    if (!file.close()) {
        reason = errno;
        lost_ = base::Error{.what = std::strerror(reason), .where = source.own.name};
        // Nobody else writes to this file, so its size says what has arrived.
        file = TRY(logs_.append(source.own.name));
        const auto left =
            static_cast<std::uint64_t>(TRY(status_of(file.get(), source.own.name)).st_size);
        written = std::min<std::uint64_t>(written, left - std::min(left, end));
    }
    if (noted_ && written > 0) noted_(number, end, written);
    source.own.bytes += written;
    if (written == bytes.size()) return {};
    return base::fail(std::strerror(reason), source.own.name);
}

}  // namespace batchai::run
