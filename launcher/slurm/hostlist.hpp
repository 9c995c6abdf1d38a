// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::slurm {

// Expands a Slurm host list expression to its names, in its order and with duplicates:
// "n[1-3,07],x2" gives n1 n2 n3 n07 x2. Leading zeros set the width. Several brackets in one name
// give all combinations. "" and "(null)" mean no host. More than `limit` names is an error, and so
// is a text that is not such an expression.
[[nodiscard]] base::Result<std::vector<std::string>> expand_hostlist(std::string_view expression,
                                                                     std::size_t limit = 65536);

}  // namespace batchai::slurm
