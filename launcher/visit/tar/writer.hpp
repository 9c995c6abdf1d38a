// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "visit/tar/reader.hpp"

namespace batchai::visit {

// Returns the header of a file or directory, in a form that every tar(1) reads. The owner is not in
// it.
[[nodiscard]] std::string tar_header(const TarEntry& entry);

// Returns what follows the contents of a file of this size.
[[nodiscard]] std::string tar_padding(std::uint64_t size);

// Returns what ends a stream.
[[nodiscard]] std::string tar_end();

}  // namespace batchai::visit
