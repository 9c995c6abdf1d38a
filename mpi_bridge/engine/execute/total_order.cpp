// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/total_order.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge {

TotalOrder::Time TotalOrder::propose(int process_set) {
    operations_[process_set] = {.time = ++now_, .agreed = false};
    return now_;
}

void TotalOrder::agreed(int process_set, Time latest) {
    now_ = std::max(now_, latest);
    operations_.at(process_set) = {.time = latest, .agreed = true};
}

bool TotalOrder::is_next(int process_set) const {
    const Operation& own = operations_.at(process_set);
    if (!own.agreed) return false;
    return std::all_of(operations_.begin(), operations_.end(), [&](const auto& other) {
        return std::pair(own.time, process_set) <= std::pair(other.second.time, other.first);
    });
}

void TotalOrder::finish(int process_set) {
    operations_.erase(process_set);
}

}  // namespace mpi_bridge
