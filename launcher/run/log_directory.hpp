// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

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

}  // namespace batchai::run
