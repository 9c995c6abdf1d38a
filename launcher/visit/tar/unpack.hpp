// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "visit/tar/reader.hpp"

namespace batchai::visit {

struct Unpacked {
    std::uint64_t files = 0;
    bool passed_over = false;  // something was not copied, and a remark said what
    bool complete = false;     // the stream had its end
};

// Where a copy goes. Every entry must be `top` of the stream or below it, and gets the name `name`
// in the directory instead, which must stay as it is meanwhile.
struct UnpackPlace {
    base::Root directory;
    std::string top;
    std::string name;
};

// Writes the files of a tar stream below a directory, and nowhere else: the stream is not trusted.
// A name with "..", a link, a device and anything else that is not a file or directory is passed
// over with a remark. Links that are in the way are not followed. A file gets its name once it is
// complete; what was not complete is removed. Reads the stream to its end. An error ends the copy:
// the stream cannot be understood, or a file cannot be written. `told` is called with the number of
// bytes written until then.
[[nodiscard]] base::Result<Unpacked> unpack(const UnpackPlace& place,
                                            const TarReader::Source& source,
                                            const std::function<void(const std::string&)>& remark,
                                            const std::function<void(std::uint64_t)>& told = {});

}  // namespace batchai::visit
