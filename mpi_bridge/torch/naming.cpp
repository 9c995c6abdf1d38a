// SPDX-License-Identifier: Apache-2.0
#include "naming.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge::torch {

namespace {

// A period counts only if the latest operations repeat in it: at least two cycles, and at least
// this many operations. The cycle is unrolled to at least as many operations, so that operations of
// one step do not wait for those of the previous step, whose names they would have.
constexpr std::size_t shortest_cycle = 8;
constexpr std::size_t longest_history = 1024;
// A cycle is given up after more consecutive operations outside it than this and than its length.
constexpr std::size_t patience = 8;

}  // namespace

std::string Naming::prefix_of_cycle() const {
    return prefix_ + ".cycle" + std::to_string(generation_) + ".";
}

int Naming::cycle_of(const std::string& name) const {
    return !cycle_.empty() && name.starts_with(prefix_of_cycle()) ? generation_ : 0;
}

std::string Naming::name(const Signature& signature, std::span<const std::string> taken) {
    ++submitted_;
    history_.push_back(signature);
    if (history_.size() >= 2 * longest_history) {
        history_.erase(history_.begin(), history_.end() - longest_history);
    }
    if (!cycle_.empty() && cycle_[place_] == signature) {
        auto found = planned();
        if (std::ranges::find(taken, found) == taken.end()) {
            return found;
        }
        // What comes again is not of the cycle: memory is kept for the names that are.
        return prefix_ + ".again." + std::to_string(submitted_);
    }
    ++outside_;
    ++misses_;
    if (misses_ > std::max(patience, cycle_.size())) {
        cycle_.clear();
        period_ = 0;
    }
    look_for_a_cycle();
    return prefix_ + "." + std::to_string(outside_);
}

std::string Naming::planned() {
    auto found = prefix_of_cycle() + std::to_string(place_);
    place_ = (place_ + 1) % cycle_.size();
    misses_ = 0;
    return found;
}

/// Adopts the sequence that the history repeats, if its period is longer than the cycle's.
void Naming::look_for_a_cycle() {
    const auto period = period_from(period_ + 1);
    if (!period) {
        return;
    }
    cycle_.clear();
    do {
        cycle_.insert(cycle_.end(), history_.end() - static_cast<std::ptrdiff_t>(*period),
                      history_.end());
    } while (cycle_.size() < shortest_cycle);
    period_ = *period;
    place_ = 0;
    misses_ = 0;
    ++generation_;
}

/// The shortest period, from `shortest` on, in which the history's end repeats.
std::optional<std::size_t> Naming::period_from(std::size_t shortest) const {
    const auto history = std::span(history_).last(std::min(history_.size(), longest_history));
    for (auto period = shortest; period <= history.size() / 2; ++period) {
        const auto length = std::max(2 * period, shortest_cycle);
        if (length > history.size()) {
            continue;
        }
        const auto latest = history.last(length - period);
        const auto earlier = history.last(length).first(length - period);
        if (std::equal(latest.rbegin(), latest.rend(), earlier.rbegin())) {
            return period;
        }
    }
    return std::nullopt;
}

}  // namespace mpi_bridge::torch
