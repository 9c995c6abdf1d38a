// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/logs.hpp"

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
    for (Source& source : sources_)
        TRY(copy(source, false));
    return {};
}

base::Result<void> LineMerger::finish() {
    for (Source& source : sources_)
        TRY(copy(source, true));
    return {};
}

base::Result<void> LineMerger::copy(Source& source, bool with_unfinished_line) {
    struct stat status {};
    const bool exists = stat(source.path.c_str(), &status) == 0;
    if (!exists || static_cast<std::size_t>(status.st_size) <= source.copied) return {};
    const base::FileDescriptor file(::open(source.path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) return {};
    const base::FileDescriptor target = TRY(logs_.append(target_));
    // A block without any newline is copied as it is, so that memory use stays bounded.
    std::string block(1UL << 20U, '\0');
    while (true) {
        const ssize_t count =
            pread(file.get(), block.data(), block.size(), static_cast<off_t>(source.copied));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return base::fail(std::strerror(errno), source.path);
        std::string_view bytes(block.data(), static_cast<std::size_t>(count));
        const std::size_t last_newline = bytes.rfind('\n');
        const bool full_block = bytes.size() == block.size();
        if (last_newline != std::string_view::npos) {
            bytes = bytes.substr(0, last_newline + 1);
        } else if (!with_unfinished_line && !full_block) {
            return {};
        }
        if (bytes.empty()) return {};
        if (!base::write_all(target.get(), bytes)) return base::fail(std::strerror(errno), target_);
        source.copied += bytes.size();
    }
}

}  // namespace batchai::run
