// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::cli {

// Returns the path of an uploaded file in its share by the Azure CLI's rule: if the last part of
// `path` has no dot, all of it is a directory, in which the file keeps its name. Otherwise the last
// part is the file's new name.
[[nodiscard]] inline std::string upload_path(std::string_view path, std::string_view source) {
    const auto slash = path.find_last_of('/');
    const auto last = slash == std::string_view::npos ? path : path.substr(slash + 1);
    if (last.find('.') != std::string_view::npos && last != "." && last != "..")
        return std::string(path);
    const auto name = source.substr(source.find_last_of('/') + 1);
    return path.empty() ? std::string(name) : std::string(path) + "/" + std::string(name);
}

}  // namespace batchai::cli
