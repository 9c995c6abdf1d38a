// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/output/value.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// The host path of the job's directory `id`: "stdouterr", or an output directory's id. The
// directory may not be there yet. An unknown id, and one on node-local storage, is an error.
[[nodiscard]] base::Result<std::filesystem::path> output_directory(const store::Store& store,
                                                                   const store::JobKey& key,
                                                                   const std::string& id);

// Opens `relative` below `root` (openat2: it never leaves it, not by ".." and not by a link).
// `flags` as open(2). not_found when there is no such file yet.
[[nodiscard]] base::Result<base::FileDescriptor> open_below(const std::filesystem::path& root,
                                                            const std::string& relative, int flags);

// One level: [{contentLength, downloadUrl, fileType, lastModified, name}], sorted by name.
[[nodiscard]] base::Result<Value> list_directory(const std::filesystem::path& root,
                                                 const std::string& relative);

// "file:///a/b%20c"
[[nodiscard]] std::string file_url(std::string_view path);

}  // namespace batchai::cli
