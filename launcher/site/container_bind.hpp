// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::site {

class TableReader;

// A directory or file of the nodes that every container shows besides what it must have. "%u"
// stands for the user's name in both paths.
struct ContainerBind {
    std::string source;  // absolute
    std::string target;  // absolute, inside
    bool read_only = false;
    bool optional = false;  // passed over on a node that has no such source

    bool operator==(const ContainerBind&) const = default;
};

// "SOURCE[:TARGET][:ro][:optional]"; without a target it is shown where it is on the node.
[[nodiscard]] base::Result<ContainerBind> parse_container_bind(std::string_view text);

// The key container_binds: a list of such texts, no two of them with one target.
void read_container_binds(TableReader& table, std::vector<ContainerBind>& binds);

}  // namespace batchai::site
