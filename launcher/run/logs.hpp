// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
    // Appends to a file in the directory and ignores errors: a full disk must not fail the job.
    void append_text(const std::string& name, std::string_view text) const;

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

// Copies growing files into files of the logs. srun writes what each task prints to a separate
// file, so that a failure can be assigned to a rank, but users want one stderr.txt. Where there are
// several sources, a line of up to 1 MiB is never torn, and finish() copies an unfinished last
// line. A single source is copied byte by byte.
class LineMerger {
  public:
    // The source need not exist yet. The targets are names in the logs. Sources may share a target;
    // `own` is a further target for the bytes of this source alone, or empty.
    struct Source {
        std::string path;
        std::string target;
        std::string own{};
    };
    // Is told what has been copied to the `own` of a source: the number of the source, and where
    // the bytes are in that file.
    using Noted = std::function<void(std::size_t source, std::uint64_t offset, std::size_t length)>;
    using Clock = std::chrono::steady_clock;

    // `logs` must outlive this object. Its files are open only while lines are copied, so that a
    // job with many ranks needs no more open files than one with few.
    LineMerger(const std::vector<Source>& sources, const LogDirectory& logs, Noted noted = {});

    // Copies the complete lines that have been added since the last call. Stops soon after `until`,
    // and the next call goes on with the next source, so that a rank that prints without end holds
    // up neither the others nor the caller. What could not be copied is tried again by the next
    // call. An error at one source does not stop the others; the last error is returned.
    [[nodiscard]] base::Result<void> poll(Clock::time_point until = Clock::time_point::max());
    // Copies everything that is left. Call once, after the writers have ended. Makes the sources
    // that do not exist. Unless this is an error, all bytes of the sources are in the logs.
    [[nodiscard]] base::Result<void> finish();

  private:
    struct Copy {
        std::string name;       // in the logs
        std::size_t bytes = 0;  // of the source, that the file has
    };
    struct Growing {
        std::string path;
        Copy target;
        Copy own;                      // without a name: none
        std::uint64_t own_begin = 0;   // size of that file before the first byte was copied
        std::size_t without_line = 0;  // size at which the rest had no complete line

        [[nodiscard]] std::size_t copied() const {
            return own.name.empty() ? target.bytes : std::min(own.bytes, target.bytes);
        }
    };
    [[nodiscard]] base::Result<void> copy(std::size_t number, bool last_time,
                                          Clock::time_point until);
    [[nodiscard]] base::Result<void> append_to_target(Growing& source, std::string_view bytes);
    [[nodiscard]] base::Result<void> append_to_own(std::size_t number, std::string_view bytes);
    [[nodiscard]] base::Result<void> close_target();

    std::vector<Growing> sources_;
    const LogDirectory& logs_;
    Noted noted_;
    std::size_t next_ = 0;         // the source to begin with
    base::FileDescriptor target_;  // the file that was written last
    std::string target_name_;
    std::optional<base::Error> lost_;  // bytes that had been written already
};

}  // namespace batchai::run
