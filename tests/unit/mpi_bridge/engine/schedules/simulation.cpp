// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rank.hpp"
#include "shared.hpp"

namespace schedules {
namespace {

class Simulation {
  public:
    Simulation(const Program& program, std::uint64_t seed)
        : shared_{.program = program}, random_(seed) {
        shared_.sets[0] = std::make_shared<ProcessSet>(program.set_members[0]);
        for (std::size_t rank = 0; rank < program.phases.size(); ++rank)
            ranks_.emplace_back(static_cast<int>(rank), shared_);
    }

    Result run() {
        Result& result = shared_.result;
        while (result.fault.empty() && !finished()) {
            if (++result.events > 200'000) {
                shared_.fault("no end after 200,000 events");
                break;
            }
            lose_a_rank();
            if (!one_event()) shared_.fault("stuck: " + where_all_are());
        }
        if (result.fault.empty()) check_devices();
        if (result.fault.empty()) check_ends();
        return result;
    }

  private:
    int between(int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random_);
    }

    [[nodiscard]] bool finished() const {
        return std::all_of(ranks_.begin(), ranks_.end(),
                           [](const Rank& rank) { return rank.lost() || rank.program_over(); });
    }

    void lose_a_rank() {
        const Program& program = shared_.program;
        if (program.lost_rank < 0 || shared_.result.events != program.lost_after) return;
        Rank& rank = ranks_[static_cast<std::size_t>(program.lost_rank)];
        if (rank.program_over()) return;
        rank.lose();
        shared_.somebody_lost = true;
    }

    // Does one of the things that can happen next. False: nothing can.
    bool one_event() {
        std::vector<Event> events;
        std::vector<Event> late;
        for (Rank& rank : ranks_) {
            if (!rank.lost()) rank.add_events(events, late);
        }
        if (!late.empty() && (events.empty() || between(0, 19) == 0)) events = std::move(late);
        if (events.empty()) return false;
        events[static_cast<std::size_t>(between(0, static_cast<int>(events.size()) - 1))]();
        for (Rank& rank : ranks_)
            rank.collect_completions();
        return true;
    }

    // The groups of a process set's DeviceGroup come in the same order on all members, as far as
    // they come.
    void check_devices() {
        for (const auto& [number, set] : shared_.sets) {
            const std::vector<std::string>* longest = nullptr;
            for (const auto& [rank, enqueued] : set->enqueued) {
                if (longest == nullptr || enqueued.size() > longest->size()) longest = &enqueued;
            }
            for (const auto& [rank, enqueued] : set->enqueued) {
                const bool same = std::equal(enqueued.begin(), enqueued.end(), longest->begin());
                if (!same || (enqueued.size() < longest->size() && !shared_.somebody_lost))
                    shared_.fault(fmt::format("rank {} uses the device in another order, in set {}",
                                              rank, number));
            }
        }
    }

    void check_ends() {
        for (const auto& [which, statuses] : shared_.outcomes) {
            const bool may_differ =
                statuses.contains(MPIB_ERROR_PEER_LOST) && shared_.somebody_lost;
            if (statuses.size() == 1 || may_differ) continue;
            std::string text;
            for (const int status : statuses)
                text += fmt::format(" {}", status);
            shared_.fault(fmt::format("request {} of \"{}\" in set {} ended differently:{}",
                                      std::get<2>(which), std::get<1>(which), std::get<0>(which),
                                      text));
        }
    }

    [[nodiscard]] std::string where_all_are() const {
        std::string text;
        for (const Rank& rank : ranks_)
            text += rank.where();
        return text;
    }

    Shared shared_;
    std::mt19937_64 random_;
    std::deque<Rank> ranks_;  // which cannot be moved
};

}  // namespace

Result simulate(const Program& program, std::uint64_t seed) {
    return Simulation(program, seed).run();
}

}  // namespace schedules
