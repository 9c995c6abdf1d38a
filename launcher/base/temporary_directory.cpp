// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/temporary_directory.hpp"

#include <cstdlib>

#include "base/file.hpp"

namespace batchai::base {

Result<TemporaryDirectory> TemporaryDirectory::make(const std::filesystem::path& parent,
                                                    std::string_view prefix) {
    std::string pattern = (parent / prefix).string() + "XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) return system_error("make", pattern);
    return TemporaryDirectory(std::move(pattern));
}

TemporaryDirectory::~TemporaryDirectory() {
    if (!path_.empty()) (void)remove_tree(path_);
}

}  // namespace batchai::base
