// SPDX-License-Identifier: GPL-2.0-or-later
#include "collective.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace bench {
namespace {

bool has_parts(Collective collective) {
    return collective != Collective::allreduce && collective != Collective::broadcast;
}

}  // namespace

Collective collective_named(std::string_view name) {
    const auto found = std::find(collective_names.begin(), collective_names.end(), name);
    if (found == collective_names.end())
        throw std::invalid_argument(std::string(name) + " is not a collective");
    return static_cast<Collective>(found - collective_names.begin());
}

Extent::Extent(Collective collective, std::size_t bytes, int ranks) {
    const std::size_t parts = has_parts(collective) ? static_cast<std::size_t>(ranks) : 1;
    part = std::max<std::size_t>(bytes / sizeof(float) / parts, 1);
    whole = part * parts;
}

std::size_t least_received(Collective collective, std::size_t bytes, int ranks) {
    const auto all = static_cast<std::size_t>(ranks);
    switch (collective) {
        case Collective::allreduce:
            return 2 * (all - 1) * bytes / all;
        case Collective::broadcast:
            return bytes;
        case Collective::reduce_scatter:
        case Collective::allgather:
        case Collective::alltoall:
            break;
    }
    return (all - 1) * bytes / all;
}

}  // namespace bench
