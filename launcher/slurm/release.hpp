// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace batchai::slurm {

// A release of Slurm: year, month and patch. 22.05.8 is {22, 5, 8}.
using Release = std::array<int, 3>;

// Reads "22.05.8". Of a release candidate such as "24.11.0rc1", the patch is taken as 0.
[[nodiscard]] std::optional<Release> release_of(std::string_view version);

}  // namespace batchai::slurm
