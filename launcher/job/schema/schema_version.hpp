// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string_view>

#include "job/model.hpp"

namespace batchai::job {

// In the order of SchemaVersion.
inline constexpr std::array<std::string_view, 3> schema_names = {"2017-09-01-preview", "2018-03-01",
                                                                 "2018-05-01"};

[[nodiscard]] constexpr std::string_view name_of(SchemaVersion version) {
    return schema_names[static_cast<std::size_t>(version)];
}

// By the version that the URL in "$schema" contains; the newest if it contains none.
[[nodiscard]] constexpr SchemaVersion schema_of_url(std::string_view url) {
    for (const SchemaVersion version :
         {SchemaVersion::v2017_09_01_preview, SchemaVersion::v2018_03_01}) {
        if (url.find(name_of(version)) != std::string_view::npos) return version;
    }
    return SchemaVersion::v2018_05_01;
}

}  // namespace batchai::job
