// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "site/storage_place.hpp"
#include "storage/share.hpp"

// The shares or containers of a storage account. Every place must be local
// (site::StoragePlace::is_local). The other parts are:
//
//   share.hpp    the files and directories of one of them
//   copy.hpp     copies a file into a directory
//   pattern.hpp  the patterns of --pattern
namespace batchai::storage {

// Checks that the name is one component of a path that does not begin with a dot (ExitCode::usage).
// `what` is "share" or "container".
[[nodiscard]] base::Result<void> check_store_name(std::string_view name, std::string_view what);

// Returns them sorted by name. A place whose directory does not exist yet has none.
[[nodiscard]] base::Result<std::vector<Entry>> stores_of(const site::StoragePlace& place);

// Opens one. not_found: there is no such share; the hint says what there is.
[[nodiscard]] base::Result<Share> open_store(const site::StoragePlace& place,
                                             const std::string& name, std::string_view what);

// Returns false if it exists already.
[[nodiscard]] base::Result<bool> create_store(const site::StoragePlace& place,
                                              const std::string& name);

// Removes it with all that is in it. Returns false if there is none.
[[nodiscard]] base::Result<bool> remove_store(const site::StoragePlace& place,
                                              const std::string& name);

}  // namespace batchai::storage
