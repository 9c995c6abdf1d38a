// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/logs.hpp"

#include <cerrno>
#include <cstdio>
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

base::Result<struct stat> file_status(int descriptor, const std::string& path) {
    struct stat status {};
    if (fstat(descriptor, &status) != 0) return base::fail(std::strerror(errno), path);
    return status;
}

// Somebody else may have made the directory while they could write to the one above it.
base::Result<void> check_ours(int descriptor, const std::string& path) {
    const struct stat status = TRY(file_status(descriptor, path));
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
    return open(name, O_WRONLY | O_CREAT | O_APPEND);
}

base::Result<base::FileDescriptor> LogDirectory::open(const std::string& name) const {
    return open(name, O_RDONLY);
}

base::Result<base::FileDescriptor> LogDirectory::open(const std::string& name, int flags) const {
    const std::string path = path_ + "/" + name;
    if (!directory_.valid()) return base::fail("its directory has not been made", path);
    // O_NONBLOCK: somebody may have made the file a FIFO while others could write to the directory.
    base::FileDescriptor file = base::open_beneath(directory_.get(), name, flags | O_NONBLOCK,
                                                   (flags & O_CREAT) != 0 ? 0644 : 0);
    if (!file.valid()) return base::fail(std::strerror(errno), path);
    if (!S_ISREG(TRY(file_status(file.get(), path)).st_mode))
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

void ExecutionLog::say(const std::string& text) {
    master(text);
    std::printf("batchai: %s\n", text.c_str());
    std::fflush(stdout);
}

void ExecutionLog::warn(std::string_view text) {
    std::fprintf(stderr, "%s\n", fmt::format("batchai: warning: {}", text).c_str());
    master(fmt::format("warning: {}", text));
    warnings_.emplace_back(text);
}

void ExecutionLog::collect_traces() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const auto trace = base::read_file(fmt::format("{}/{}.log", traces_, nodes_[i]));
        if (!trace || trace->size() <= collected_[i]) continue;
        append(i, std::string_view(*trace).substr(collected_[i]));
        collected_[i] = trace->size();
    }
}

}  // namespace batchai::run
