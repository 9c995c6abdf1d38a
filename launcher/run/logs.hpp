// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::run {

// The directory of a job's logs. The prefix that the job file gives for it may be a directory to
// which others can write, where they could make what we are about to make, or a link in its place.
// So the directory must be the user's own, and it is held open: nothing is found by its path again.
class LogDirectory {
  public:
    explicit LogDirectory(std::string path) : path_(std::move(path)) {}

    // Makes the directory and what is missing above it, and opens it. A symbolic link is followed
    // only where nobody but root and the user could have put it. The error names the component.
    [[nodiscard]] base::Result<void> make();

    [[nodiscard]] const std::string& path() const { return path_; }
    // Opens a file in it for appending, never through a link.
    [[nodiscard]] base::Result<base::FileDescriptor> append(const std::string& name) const;
    // Appends to a file in it as well as that goes: a full disk must not fail the job.
    void append_text(const std::string& name, std::string_view text) const;
    // The name of a file in it for a child of this process on this node, such as srun, which leads
    // into the directory that is held open, whatever has become of its path.
    [[nodiscard]] std::string for_child(const std::string& name) const;

  private:
    std::string path_;
    base::FileDescriptor directory_;
};

// execution.log (one node) or execution-<node>.log (several): what the launcher does on each
// node, in UTC-stamped lines. The master's log also has what concerns the job as a whole.
// Lines are best effort: a full disk must not fail the job.
class ExecutionLog {
  public:
    // `traces` is the directory in which batchai-node leaves <node>.log.
    // `logs` must outlive this object.
    ExecutionLog(const LogDirectory& logs, std::string traces, std::vector<std::string> nodes);

    void all_nodes(std::string_view text);
    void master(std::string_view text);
    // Brings over what batchai-node has traced since the last call.
    void collect_traces();

  private:
    void append(std::size_t node_index, std::string_view lines) const;

    const LogDirectory& logs_;
    std::string traces_;
    std::vector<std::string> nodes_;
    std::vector<std::size_t> collected_;  // bytes per node
};

// Merges growing files line by line into one: srun writes each rank's standard error to a file
// of its own (so that a failure can be told apart by rank), users want the one stderr.txt.
// A line is never torn; an unfinished last line is copied by finish().
class LineMerger {
  public:
    // The sources need not exist yet. `target` is open for appending; its name is for messages.
    LineMerger(std::vector<std::string> sources, base::FileDescriptor target,
               std::string target_name);

    // Copies the complete lines that have come since the last call.
    [[nodiscard]] base::Result<void> poll();
    // Copies everything that is left. Call once, after the writers have ended.
    [[nodiscard]] base::Result<void> finish();

  private:
    struct Source {
        std::string path;
        std::size_t copied = 0;  // bytes
    };
    [[nodiscard]] base::Result<void> copy(Source& source, bool with_unfinished_line);

    std::vector<Source> sources_;
    base::FileDescriptor target_;
    std::string target_name_;
};

}  // namespace batchai::run
