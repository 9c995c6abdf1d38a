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
#include "base/timestamp.hpp"

namespace batchai::run {

namespace {

constexpr mode_t others_may_write = S_IWGRP | S_IWOTH;

base::Result<struct stat> status_of(int descriptor, const std::string& path) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) return base::fail(std::strerror(errno), path);
    return status;
}

}  // namespace

base::Result<void> LogDirectory::make() {
    base::Root here = TRY(base::make_guarded_directory(path_));
    const struct stat status = TRY(status_of(here.directory.get(), path_));
    if (status.st_uid != geteuid())
        return base::fail(
            fmt::format("belongs to user {}, not to you (user {})", status.st_uid, geteuid()),
            path_, "submit the job again; its logs then have another directory");
    if ((status.st_mode & others_may_write) != 0)
        return base::fail(
            fmt::format("can be written to by others (mode {:04o})", status.st_mode & 07777U),
            path_, fmt::format("chmod go-w {}", path_));
    directory_ = std::move(here.directory);
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

std::string LogDirectory::for_child(const std::string& name) const {
    return fmt::format("/proc/{}/fd/{}/{}", getpid(), directory_.get(), name);
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

LineMerger::LineMerger(std::vector<std::string> sources, const LogDirectory& logs,
                       std::string target)
    : logs_(logs), target_(std::move(target)) {
    for (std::string& path : sources)
        sources_.push_back({std::move(path), 0});
}

base::Result<void> LineMerger::poll() {
    return copy_all(false);
}

base::Result<void> LineMerger::finish() {
    return copy_all(true);
}

base::Result<void> LineMerger::copy_all(bool last_time) {
    base::Result<void> outcome;
    for (Source& source : sources_) {
        if (auto copied = copy(source, last_time); !copied) outcome = std::move(copied);
    }
    return outcome;
}

base::Result<void> LineMerger::copy(Source& source, bool last_time) {
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
    if (size <= source.copied || (size == source.without_line && !last_time)) return {};
    // A block without any newline is copied as it is, so that memory use stays bounded.
    constexpr std::size_t longest = 1UL << 20U;
    std::string block(std::min(longest, size - source.copied), '\0');
    while (true) {
        const ssize_t count =
            pread(file.get(), block.data(), block.size(), static_cast<off_t>(source.copied));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), source.path);
        std::string_view bytes(block.data(), static_cast<std::size_t>(count));
        const std::size_t last_newline = bytes.rfind('\n');
        if (last_newline != std::string_view::npos) {
            bytes = bytes.substr(0, last_newline + 1);
        } else if (!last_time && bytes.size() < longest) {
            source.without_line = size;
            return {};
        }
        if (bytes.empty()) return {};
        TRY(append(source, bytes));
    }
}

base::Result<void> LineMerger::append(Source& source, std::string_view bytes) const {
    const base::FileDescriptor target = TRY(logs_.append(target_));
    while (!bytes.empty()) {
        const ssize_t written = write(target.get(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return base::fail(std::strerror(errno), target_);
        // What a full disk has taken of a block is not written again later.
        source.copied += static_cast<std::size_t>(written);
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace batchai::run
