// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "core/failure.hpp"

namespace mpi_bridge {

// A file that holds a JSON array and is complete after every append: each append overwrites the
// closing bracket and adds a new one, in one write. One thread at a time may call.
class TimelineFile {
  public:
    // Creates the file, or empties it; mode 0644 less the umask. Fails with
    // MPIB_ERROR_INVALID_ARGUMENT, with the path and the system's reason, when that is not
    // possible.
    [[nodiscard]] static Outcome<std::unique_ptr<TimelineFile>> create(std::string path);
    ~TimelineFile();
    TimelineFile(const TimelineFile&) = delete;
    TimelineFile& operator=(const TimelineFile&) = delete;

    // `elements` holds at least one element; several are separated by commas. After a failure
    // (MPIB_ERROR_INTERNAL) the file holds what it held before, if the system allows it.
    [[nodiscard]] Done append(std::string_view elements);

    [[nodiscard]] const std::string& path() const { return path_; }

  private:
    TimelineFile(std::string path, int descriptor);
    [[nodiscard]] Done write_at(std::string_view bytes, off_t offset) const;

    std::string path_;
    int descriptor_;
    off_t end_ = 0;  // of the elements: where the closing bracket is
    bool empty_ = true;
    std::string buffer_;
};

}  // namespace mpi_bridge
