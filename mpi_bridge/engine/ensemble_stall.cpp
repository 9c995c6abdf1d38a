// SPDX-License-Identifier: Apache-2.0
//
// What happens while nothing happens.
//
// A rank that has something waiting for a while begins a round, though it has nothing to tell: the
// pulse. For it takes a message to notice that a member is gone; without it, the members that wait
// for the lost one, and those that wait for them in a round, could all wait for somebody else.
//
// And people are told what waits for whom: a rank that has something waiting for long asks, in a
// round, what each member has submitted; then every rank that has such operations reports them.
#include <algorithm>
#include <cstdio>

#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

constexpr Seconds pulse_after{2};

}  // namespace

Seconds Ensemble::oldest_age(Clock::time_point now) {
    Seconds oldest{0};
    for (Index index = 0; index < table_.size(); ++index) {
        const Entry& entry = table_.at(index);
        const bool waits =
            entry.stage == Entry::Stage::waiting || entry.stage == Entry::Stage::running;
        if (waits && entry.descriptor.kind != Kind::join)
            oldest = std::max(oldest, Seconds(now - entry.submitted));
    }
    return oldest;
}

Deadline Ensemble::next_stall_look() {
    constexpr Seconds never{3600};
    const Lock lock(mutex_);
    const auto now = Clock::now();
    const Seconds oldest = oldest_age(now);
    const auto next = stall_watch_.next_look(oldest, now);
    Seconds wait = next.value_or(never);
    // What waits in the plan comes without the conductor's knowledge, so it looks now and then.
    if (oldest.count() > 0 || lane_.active()) wait = std::min(wait, pulse_after);
    return Deadline::in(std::max(until_device_look(wait), Seconds(0.001)));
}

// True when it is time for a pulse.
bool Ensemble::look_for_stalls() {
    Lock lock(mutex_);
    const auto now = Clock::now();
    const Seconds oldest = oldest_age(now);
    const bool pulse = std::min(oldest, Seconds(now - latest_round_)) >= pulse_after;
    switch (stall_watch_.look(oldest, now)) {
        case StallWatch::Verdict::quiet:
            return pulse;
        case StallWatch::Verdict::report:
            asks_who_ = true;
            return pulse;
        case StallWatch::Verdict::shut_down:
            break;
    }
    const Failure failure{MPIB_ERROR_TIMEOUT,
                          "given up, because operations have waited for longer than "
                          "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS: " +
                              pending_text(now, Seconds(0))};
    lock.unlock();
    host_.fail_all(failure);
    return false;
}

// What of this rank's operations has waited for that long, and for whom.
std::string Ensemble::pending_text(Clock::time_point now, Seconds at_least) {
    std::vector<Pending> pending;
    for (Index index = 0; index < table_.size(); ++index) {
        const Entry& entry = table_.at(index);
        const bool waits =
            entry.stage == Entry::Stage::waiting || entry.stage == Entry::Stage::running;
        const Seconds age(now - entry.submitted);
        if (!waits || entry.descriptor.kind == Kind::join || age < at_least) continue;
        pending.push_back({entry.name, shown_kind(entry.descriptor.kind), entry.bytes, age,
                           process_set_, entry.missing});
    }
    return stall_report(group_.ranks[static_cast<std::size_t>(group_.own)], pending);
}

Done Ensemble::ask_who() {
    std::vector<std::uint64_t> submitted((ledger_.size() + 63) / 64);
    {
        const Lock lock(mutex_);
        for (Ledger::Id id = 0; id < ledger_.size(); ++id) {
            const Entry* entry = table_.of(id);
            const bool here = entry != nullptr && entry->stage != Entry::Stage::free;
            if (here || joined_here_) submitted[id / 64] |= std::uint64_t{1} << (id % 64);
        }
    }
    const auto all = gather_masks(*control_, timeout(), submitted);
    if (!all) return tl::unexpected(all.error());

    std::string text;
    {
        const Lock lock(mutex_);
        for (Ledger::Id id = 0; id < ledger_.size(); ++id) {
            Entry* entry = table_.of(id);
            if (entry == nullptr || entry->stage == Entry::Stage::free) continue;
            entry->missing.assign(static_cast<std::size_t>(group_.ranks.back()) / 64 + 1, 0);
            for (int member = 0; member < group_.size(); ++member) {
                const auto of_member = static_cast<std::size_t>(member) * submitted.size();
                if (((*all)[of_member + id / 64] >> (id % 64) & 1) != 0) continue;
                const auto rank =
                    static_cast<std::size_t>(group_.ranks[static_cast<std::size_t>(member)]);
                entry->missing[rank / 64] |= std::uint64_t{1} << (rank % 64);
            }
        }
        text = pending_text(Clock::now(), host_.parts().settings.stall.report);
    }
    if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
    return {};
}

}  // namespace mpi_bridge
