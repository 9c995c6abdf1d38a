// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::run {

// The directory of a job's logs. The prefix that the job file gives may be a directory to which
// others can write, and they could create this directory before us or put a link in its place. So
// the directory must belong to the user, and it is held open so that its path is not looked up
// again.
class LogDirectory {
  public:
    explicit LogDirectory(std::string path) : path_(std::move(path)) {}

    // Makes the directory and its missing parents, and opens it. A symbolic link is followed only
    // where nobody but root and the user could have made it. The error names the component that is
    // in the way.
    [[nodiscard]] base::Result<void> make();

    [[nodiscard]] const std::string& path() const { return path_; }
    // Makes a directory in it and its missing parents, never through a link. `name` is relative.
    // Refuses what belongs to somebody else or can be written to by others.
    [[nodiscard]] base::Result<void> make_directory(const std::string& name) const;
    // Opens a file in the directory for appending, never through a link.
    [[nodiscard]] base::Result<base::FileDescriptor> append(const std::string& name) const;
    // Opens a file in the directory for reading, never through a link.
    [[nodiscard]] base::Result<base::FileDescriptor> open(const std::string& name) const;
    // Appends to a file in the directory and ignores errors: a full disk must not fail the job.
    void append_text(const std::string& name, std::string_view text) const;

  private:
    [[nodiscard]] base::Result<base::FileDescriptor> open(const std::string& name, int flags) const;

    std::string path_;
    base::FileDescriptor directory_;
};

// Writes execution.log (one node) or execution-<node>.log (several nodes): UTC-stamped lines about
// what the launcher does on each node. The first node's log also has the lines about the job as a
// whole. Lines that cannot be written are lost, because a full disk must not fail the job.
class ExecutionLog {
  public:
    // `traces` is the directory in which batchai-node leaves <node>.log.
    // `logs` must outlive this object.
    ExecutionLog(const LogDirectory& logs, std::string traces, std::vector<std::string> nodes);

    void all_nodes(std::string_view text);
    void master(std::string_view text);
    // Says something about the job on standard output, too.
    void say(const std::string& text);
    // Says on standard error, in the first node's log and in the record of the attempt what users
    // should know of however the attempt ends.
    void warn(std::string_view text);
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    // Appends to the logs what batchai-node has traced since the last call.
    void collect_traces();

  private:
    void append(std::size_t node_index, std::string_view lines) const;

    const LogDirectory& logs_;
    std::string traces_;
    std::vector<std::string> nodes_;
    std::vector<std::size_t> collected_;  // bytes per node
    std::vector<std::string> warnings_;
};

}  // namespace batchai::run
