// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace batchai::slurm {

// The names that a Slurm host list expression means, in its order, duplicates kept:
// "n[1-3,07],x2" is n1 n2 n3 n07 x2; leading zeros set the width; several brackets in one name
// multiply. "" and "(null)" mean no host. More than `limit` names, or text that is no such
// expression, is an error.
[[nodiscard]] base::Result<std::vector<std::string>> expand_hostlist(std::string_view expression,
                                                                     std::size_t limit = 65536);

}  // namespace batchai::slurm
