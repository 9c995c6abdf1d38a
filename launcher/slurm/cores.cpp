// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/cores.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

bool has_features(std::string_view features, std::string_view constraint) {
    if (constraint.empty()) return true;
    const auto has = base::split(features, ',');
    const auto wanted = base::split(constraint, '&');
    return std::all_of(wanted.begin(), wanted.end(), [&](std::string_view feature) {
        return std::find(has.begin(), has.end(), base::trim(feature)) != has.end();
    });
}

}  // namespace

base::Result<Cores> parse_cores(std::string_view text, std::string_view constraint) {
    Cores cores;
    std::set<std::string, std::less<>> seen;
    for (const std::string_view line : base::split(text, '\n')) {
        if (base::trim(line).empty()) continue;
        const auto fields = base::split(line, '|');
        const auto counts = fields.size() == 3 ? base::split(base::trim(fields[2]), '/')
                                               : std::vector<std::string_view>{};
        const auto allocated = counts.size() == 4 ? base::number_in<int>(counts[0]) : std::nullopt;
        const auto total = counts.size() == 4 ? base::number_in<int>(counts[3]) : std::nullopt;
        if (!allocated || !total)
            return base::fail(
                fmt::format("sinfo printed a line that cannot be read: \"{}\"", line));
        if (!has_features(fields[1], constraint)) continue;
        if (!seen.emplace(fields[0]).second) continue;
        cores.allocated += *allocated;
        cores.total += *total;
    }
    return cores;
}

base::Result<Cores> cores(const Client& client, const NodeFilter& filter) {
    return parse_cores(TRY(client.core_counts(filter.partition)), filter.constraint);
}

}  // namespace batchai::slurm
