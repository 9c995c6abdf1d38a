// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/process.hpp"

namespace batchai::storage {

// A regular file that is open for reading, or a part of it.
struct Source {
    base::FileDescriptor file;
    std::string path;        // for messages
    std::int64_t begin = 0;  // of the part
    std::int64_t end = 0;    // behind its last byte
    mode_t mode = 0;

    [[nodiscard]] std::int64_t size() const { return end - begin; }
};

// The first and the last byte of a part, counted from 0. Absent: the file's own.
struct Range {
    std::optional<std::int64_t> first;
    std::optional<std::int64_t> last;
};
// Narrows the source to a part. A last byte behind the file's is not an error; a first one is.
[[nodiscard]] base::Result<Source> part_of(Source source, const Range& range);

// Opens a file of the user's by its path. Anything else than a regular file is refused, and opening
// a FIFO does not wait for a writer.
[[nodiscard]] base::Result<Source> open_source(const std::string& path);
// Checks a file that was opened in another way.
[[nodiscard]] base::Result<Source> source_of(base::FileDescriptor file, std::string path);

struct Copying {
    // Takes the bytes of the current file that are done.
    std::function<void(std::int64_t done)> progress;
    // Signals that end the copy. One that has arrived is left to the object, whose destructor gives
    // it its usual effect.
    const base::HeldSignals& signals;
};

// Returns whether this is the name of a temporary file of copy_to().
[[nodiscard]] bool is_incomplete_copy(std::string_view name);

// Copies the file to `name` in the open directory. The bytes go to a temporary file in the
// directory, which takes the place of `name` at the end, so that a reader sees the old file or the
// new one, and a link of that name is replaced and not followed. After an error or a signal nothing
// is left. Holes stay holes. Takes little memory for a file of any size. `path` is that of the new
// file, for messages.
[[nodiscard]] base::Result<void> copy_to(const Source& source, int directory,
                                         const std::string& name, const std::string& path,
                                         const Copying& copying);

}  // namespace batchai::storage
