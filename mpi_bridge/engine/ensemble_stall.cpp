// SPDX-License-Identifier: Apache-2.0
//
// Telling people what waits for whom. A rank that has something waiting for long asks, in a control
// round, what each member has submitted; then every rank that has such operations reports them.
#include <algorithm>
#include <cstdio>

#include "engine/ensemble.hpp"

namespace mpi_bridge {

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
    const auto next = stall_watch_.next_look(oldest_age(now), now);
    Seconds wait = next.value_or(never);
    // What waits in the plan comes without the conductor's knowledge.
    const Seconds report = host_.parts().settings.stall.report;
    if (report.count() > 0) wait = std::min(wait, report);
    return Deadline::in(std::max(wait, Seconds(0.001)));
}

void Ensemble::look_for_stalls() {
    Lock lock(mutex_);
    const auto now = Clock::now();
    switch (stall_watch_.look(oldest_age(now), now)) {
        case StallWatch::Verdict::quiet:
            return;
        case StallWatch::Verdict::report:
            asks_who_ = true;
            return;
        case StallWatch::Verdict::shut_down:
            break;
    }
    const Failure failure{MPIB_ERROR_TIMEOUT,
                          "given up, because operations have waited for longer than "
                          "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS: " +
                              pending_text(now, Seconds(0))};
    lock.unlock();
    host_.fail_all(failure);
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
