// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/release.hpp"

#include "base/text.hpp"

namespace batchai::slurm {

std::optional<Release> release_of(std::string_view version) {
    const auto parts = base::split(version, '.');
    if (parts.size() < 2) return std::nullopt;
    const auto year = base::number_in<int>(parts[0]);
    const auto month = base::number_in<int>(parts[1]);
    const auto patch = parts.size() > 2 ? base::number_in<int>(parts[2]) : std::nullopt;
    if (!year || !month) return std::nullopt;
    return Release{*year, *month, patch.value_or(0)};
}

}  // namespace batchai::slurm
