// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

// Where dynamic loaders find libraries.
namespace batchai::node {

// Of /etc/ld.so.cache's bytes: paths by name, in the loader's order, of all architectures. Nothing
// when they are not what glibc writes.
[[nodiscard]] std::multimap<std::string, std::string> read_loader_cache(std::string_view bytes);

// Where an image's loader would look for `name`, in its order: LD_LIBRARY_PATH, its list, the
// directories that need no mention.
[[nodiscard]] std::vector<std::string> places_of_library(
    const std::string& name, std::string_view library_path,
    const std::multimap<std::string, std::string>& cache);

// What the loader prints for --list or LD_TRACE_LOADED_OBJECTS: paths by the names under which
// objects need them. A name that was not found has no entry.
[[nodiscard]] std::map<std::string, std::string> read_loaded_objects(std::string_view text);

}  // namespace batchai::node
