// SPDX-License-Identifier: Apache-2.0
#include "core/visible_layout.hpp"

namespace mpi_bridge {

std::vector<VisibleWait> waits_in(const WaitsTable& table) {
    std::vector<VisibleWait> waits;
    for (std::size_t at = 0; at < table.places.size(); ++at) {
        const WaitsTable::Place& place = table.places[at];
        const std::int64_t who = place.who.load(std::memory_order_acquire);
        if (who == WaitsTable::nobody) continue;
        waits.push_back({.place = static_cast<int>(at),
                         .serial = place.serial.load(std::memory_order_relaxed),
                         .rank = static_cast<int>(who >> WaitsTable::lane_bits),
                         .lane = static_cast<int>(who & ((1 << WaitsTable::lane_bits) - 1)),
                         .since = place.since.load(std::memory_order_relaxed)});
    }
    return waits;
}

std::optional<std::string_view> operations_in(const OperationsTable& copy,
                                              std::uint32_t version_after) {
    const std::uint32_t version = copy.version.load(std::memory_order_relaxed);
    if (version % 2 != 0 || version != version_after || copy.bytes > copy.text.size())
        return std::nullopt;
    return std::string_view(copy.text.data(), copy.bytes);
}

}  // namespace mpi_bridge
