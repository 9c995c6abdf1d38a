// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"

namespace batchai::run {

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
