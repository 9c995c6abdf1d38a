// SPDX-License-Identifier: Apache-2.0
#include "core/waits.hpp"

namespace mpi_bridge {
namespace {

// Threads begin their search at different places, so that they seldom contend for one.
int first_place(int places) {
    static std::atomic<int> threads{0};
    thread_local const int own = threads.fetch_add(1, std::memory_order_relaxed);
    return own % places;
}

}  // namespace

std::int64_t Waits::packed(int rank, Lane lane) {
    return std::int64_t{rank} << lane_bits | static_cast<std::int64_t>(lane);
}

Waits::Waiting::Waiting(Waits* waits, int rank, Lane lane,
                        std::optional<Clock::time_point> since) noexcept
    : waits_(waits), lane_(lane) {
    if (waits == nullptr) return;
    const int first = first_place(places);
    for (int tried = 0; tried < places; ++tried) {
        const int at = (first + tried) % places;
        Place& place = waits->places_[static_cast<std::size_t>(at)];
        std::int64_t expected = nobody;
        if (place.who.load(std::memory_order_relaxed) != nobody) continue;
        if (!place.who.compare_exchange_strong(expected, packed(rank, lane))) continue;
        if (since) place.since.store(since->time_since_epoch().count(), std::memory_order_relaxed);
        place_ = at;
        return;
    }
}

Waits::Waiting::~Waiting() {
    if (place_ < 0) return;
    Place& place = waits_->places_[static_cast<std::size_t>(place_)];
    place.serial.fetch_add(1, std::memory_order_relaxed);
    place.since.store(unknown, std::memory_order_relaxed);
    place.who.store(nobody, std::memory_order_release);
}

void Waits::Waiting::go_on_for(int rank) noexcept {
    if (place_ < 0) return;
    waits_->places_[static_cast<std::size_t>(place_)].who.store(packed(rank, lane_),
                                                                std::memory_order_relaxed);
}

std::vector<Waits::Blocked> Waits::now() const {
    std::vector<Blocked> blocked;
    for (int at = 0; at < places; ++at) {
        const Place& place = places_[static_cast<std::size_t>(at)];
        const std::int64_t who = place.who.load(std::memory_order_acquire);
        if (who == nobody) continue;
        const Clock::rep began = place.since.load(std::memory_order_relaxed);
        std::optional<Clock::time_point> since;
        if (began != unknown) since.emplace(Clock::duration(began));
        blocked.push_back({.place = at,
                           .serial = place.serial.load(std::memory_order_relaxed),
                           .rank = static_cast<int>(who >> lane_bits),
                           .lane = static_cast<Lane>(who & ((1 << lane_bits) - 1)),
                           .since = since});
    }
    return blocked;
}

}  // namespace mpi_bridge
