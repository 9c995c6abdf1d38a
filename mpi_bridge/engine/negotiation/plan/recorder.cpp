// SPDX-License-Identifier: Apache-2.0
#include "engine/negotiation/plan/recorder.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge {

void Recorder::executed(Execution execution) {
    if (in_current_.contains(execution.id)) {
        previous_ = std::exchange(in_current_, {});
        current_.clear();
    }
    in_current_.insert(execution.id);
    current_.push_back(execution);
}

std::optional<std::vector<Recorder::Execution>> Recorder::step() const {
    if (previous_.empty() || current_.size() < previous_.size()) return std::nullopt;
    const bool whole = std::all_of(previous_.begin(), previous_.end(),
                                   [this](std::uint32_t id) { return in_current_.contains(id); });
    if (!whole) return std::nullopt;
    return current_;
}

void Recorder::restart_after_step() {
    previous_ = std::exchange(in_current_, {});
    current_.clear();
}

void Recorder::restart() {
    current_.clear();
    in_current_.clear();
    previous_.clear();
}

}  // namespace mpi_bridge
