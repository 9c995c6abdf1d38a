// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>

#include "site/site.hpp"

namespace batchai::image {

// Where imported images are.
struct Places {
    std::string own;         // absolute; the user's
    std::string shared;      // may be empty
    int shared_owner = 0;    // user id of who fills it, besides root
    std::int64_t limit = 0;  // bytes in `own`; 0: none
};

// `batchai_home` is the directory of the user's records.
[[nodiscard]] Places places_of(const site::Site& site, const std::string& batchai_home,
                               const std::string& user_name);

}  // namespace batchai::image
