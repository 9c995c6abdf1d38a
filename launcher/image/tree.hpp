// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <string>

#include "base/error.hpp"

// Directory trees whose content an image decided: no link is ever followed, modes may be anything.
namespace batchai::image {

// Gives the owner all rights on directories and the right to read on files, so that the tree can
// be packed and removed without privilege. `tick` is called now and then.
[[nodiscard]] base::Result<void> make_readable(const std::string& path,
                                               const std::function<void()>& tick);

// Removes it, whatever it is; no error when it is not there.
[[nodiscard]] base::Result<void> remove_tree(const std::string& path,
                                             const std::function<void()>& tick);

// The bytes of all files.
[[nodiscard]] std::int64_t size_of_tree(const std::string& path);

}  // namespace batchai::image
