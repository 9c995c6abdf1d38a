// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/records.hpp"

namespace batchai::cli {

// Returns the tags of words such as "key=value" or "key"; nothing if there are no words.
[[nodiscard]] inline std::optional<store::Tags> tags_of(const std::vector<std::string>& words) {
    if (words.empty()) return {};
    store::Tags tags;
    for (const auto& word : words) {
        const auto equals = word.find('=');
        tags[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    return tags;
}

}  // namespace batchai::cli
