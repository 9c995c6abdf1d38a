// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"
#include "slurm/client.hpp"

namespace batchai::slurm {

// The cores of some nodes.
struct Cores {
    int allocated = 0;  // by jobs of all users
    int total = 0;

    bool operator==(const Cores&) const = default;
};

// Adds up the cores of the nodes that the filter selects, as Slurm counts them. Asks once.
[[nodiscard]] base::Result<Cores> cores(const Client& client, const NodeFilter& filter);

// Reads lines of "node|features|allocated/idle/other/total". A node that is in several partitions
// counts once.
[[nodiscard]] base::Result<Cores> parse_cores(std::string_view text, std::string_view constraint);

}  // namespace batchai::slurm
