// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace batchai::visit {

struct Packed {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    bool passed_over = false;  // something was not copied, and a remark said what
};

// The names in the stream.
struct PackNames {
    std::string top;     // of the file or directory
    std::string last{};  // of an empty directory that comes last; empty: none comes
};

// Writes a file, or a directory with all that is in it, as a tar stream. Links to files are
// followed. Links to directories, and what is neither a file nor a directory, are passed over with
// a remark. `write` takes bytes of the stream, and returns false to end the copy.
[[nodiscard]] base::Result<Packed> pack(const std::filesystem::path& source, const PackNames& names,
                                        const std::function<bool(std::string_view)>& write,
                                        const std::function<void(const std::string&)>& remark);

}  // namespace batchai::visit
