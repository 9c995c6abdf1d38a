// SPDX-License-Identifier: Apache-2.0
#include "core/waits.hpp"

#include <atomic>

namespace mpi_bridge {
namespace {

// Threads begin their search at different places, so that they seldom contend for one.
std::size_t first_place(std::size_t places) {
    static std::atomic<std::size_t> threads{0};
    thread_local const std::size_t own = threads.fetch_add(1, std::memory_order_relaxed);
    return own % places;
}

}  // namespace

Waits::Waits() : own_(std::make_unique<WaitsTable>()), table_(own_.get()) {}

std::int64_t Waits::packed(int rank, Lane lane) {
    return std::int64_t{rank} << WaitsTable::lane_bits | static_cast<std::int64_t>(lane);
}

Waits::Waiting::Waiting(Waits* waits, int rank, Lane lane,
                        std::optional<Clock::time_point> since) noexcept
    : waits_(waits), lane_(lane) {
    if (waits == nullptr) return;
    auto& places = waits->table_->places;
    const std::size_t first = first_place(places.size());
    for (std::size_t tried = 0; tried < places.size(); ++tried) {
        const std::size_t at = (first + tried) % places.size();
        WaitsTable::Place& place = places[at];
        std::int64_t expected = WaitsTable::nobody;
        if (place.who.load(std::memory_order_relaxed) != WaitsTable::nobody) continue;
        if (!place.who.compare_exchange_strong(expected, packed(rank, lane))) continue;
        if (since) place.since.store(since->time_since_epoch().count(), std::memory_order_relaxed);
        place_ = static_cast<int>(at);
        return;
    }
}

Waits::Waiting::~Waiting() {
    if (place_ < 0) return;
    WaitsTable::Place& place = waits_->table_->places[static_cast<std::size_t>(place_)];
    place.serial.fetch_add(1, std::memory_order_relaxed);
    place.since.store(WaitsTable::unknown, std::memory_order_relaxed);
    place.who.store(WaitsTable::nobody, std::memory_order_release);
}

void Waits::Waiting::go_on_for(int rank) noexcept {
    if (place_ < 0) return;
    WaitsTable::Place& place = waits_->table_->places[static_cast<std::size_t>(place_)];
    place.who.store(packed(rank, lane_), std::memory_order_relaxed);
}

std::vector<Waits::Blocked> Waits::now() const {
    std::vector<Blocked> blocked;
    for (const VisibleWait& wait : waits_in(*table_)) {
        std::optional<Clock::time_point> since;
        if (wait.since != WaitsTable::unknown) since.emplace(Clock::duration(wait.since));
        blocked.push_back({.place = wait.place,
                           .serial = wait.serial,
                           .rank = wait.rank,
                           .lane = static_cast<Lane>(wait.lane),
                           .since = since});
    }
    return blocked;
}

}  // namespace mpi_bridge
