// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

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
    // Opens a file in the directory for appending, never through a link.
    [[nodiscard]] base::Result<base::FileDescriptor> append(const std::string& name) const;
    // Appends to a file in the directory and ignores errors: a full disk must not fail the job.
    void append_text(const std::string& name, std::string_view text) const;
    // Returns a path of a file in the directory for a child of this process on this node, such as
    // srun. The path leads into the open directory, even if the directory has been moved or
    // replaced since.
    [[nodiscard]] std::string for_child(const std::string& name) const;

  private:
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
    // Appends to the logs what batchai-node has traced since the last call.
    void collect_traces();

  private:
    void append(std::size_t node_index, std::string_view lines) const;

    const LogDirectory& logs_;
    std::string traces_;
    std::vector<std::string> nodes_;
    std::vector<std::size_t> collected_;  // bytes per node
};

// Merges growing files line by line into one file of the logs. srun writes what each task prints to
// a separate file, so that a failure can be assigned to a rank, but users want one stderr.txt. A
// line of up to 1 MiB is never torn; finish() copies an unfinished last line.
class LineMerger {
  public:
    // The sources need not exist yet. `target` is a name in `logs`, which must outlive this object.
    // The file is open only while lines are copied, so that a job with many ranks needs no more
    // open files than one with few.
    LineMerger(std::vector<std::string> sources, const LogDirectory& logs, std::string target);

    // Copies the complete lines that have been added since the last call. What could not be copied
    // is tried again by the next call. An error at one source does not stop the others; the last
    // error is returned.
    [[nodiscard]] base::Result<void> poll();
    // Copies everything that is left. Call once, after the writers have ended. Makes the sources
    // that do not exist.
    [[nodiscard]] base::Result<void> finish();

  private:
    struct Source {
        std::string path;
        std::size_t copied = 0;        // bytes
        std::size_t without_line = 0;  // size at which the rest had no complete line
    };
    [[nodiscard]] base::Result<void> copy_all(bool last_time);
    [[nodiscard]] base::Result<void> copy(Source& source, bool last_time);
    [[nodiscard]] base::Result<void> append(Source& source, std::string_view bytes) const;

    std::vector<Source> sources_;
    const LogDirectory& logs_;
    std::string target_;
};

}  // namespace batchai::run
