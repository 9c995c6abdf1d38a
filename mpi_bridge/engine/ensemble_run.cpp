// SPDX-License-Identifier: Apache-2.0
//
// The negotiated lane: the conductor runs what a round has found ready.
#include <algorithm>

#include <fmt/core.h>

#include "engine/catching.hpp"
#include "engine/ensemble.hpp"

namespace mpi_bridge {

Done Ensemble::run_ready(const std::vector<Ledger::Id>& ready) {
    if (ready.empty()) return {};
    if (negotiated_ == nullptr) {
        if (auto done = open(negotiated_, Channel::Lane::negotiated); !done) return done;
    }
    const bool pauses = lane_.on_device() && std::any_of(ready.begin(), ready.end(), [&](auto id) {
                            return ledger_.at(id).descriptor.device;
                        });
    if (pauses) {
        if (auto done = pause_plan(); !done) return done;
    }
    auto done = run_agreed_order(ready);
    if (pauses) resume_plan();
    return done;
}

Done Ensemble::run_agreed_order(const std::vector<Ledger::Id>& ready) {
    // All are submitted on all ranks, so no two of them depend on each other.
    std::vector<Sequenced> sequence;
    sequence.reserve(ready.size());
    for (const Ledger::Id id : ready)
        sequence.push_back({id, &ledger_.at(id).descriptor, 1, 0});
    const std::size_t limit = host_.parts().settings.bucket_bytes;
    for (const Item& item : arrange(sequence, {limit, limit})) {
        for (const Part& part : item.parts) {
            if (auto done = run_part(part); !done) return done;
        }
    }
    return {};
}

Done Ensemble::run_part(const Part& part) {
    const Descriptor& what = ledger_.at(part.ids.front()).descriptor;
    std::vector<Entry*> entries;
    {
        const Lock lock(mutex_);
        if (failure_) return tl::unexpected(*failure_);
        const auto now = Clock::now();
        for (const Ledger::Id id : part.ids) {
            Entry* entry = table_.of(id);
            if (entry != nullptr && entry->stage != Entry::Stage::waiting) entry = nullptr;
            entries.push_back(entry);
            if (entry == nullptr) continue;  // this rank has joined
            entry->stage = Entry::Stage::running;
            trace().counters.add_queued(now - entry->submitted);
            trace().timeline.begin(shown(*entry, Phase::operation),
                                   {static_cast<std::int64_t>(entry->bytes), what.datatype});
        }
    }
    Done done = catching([&] { return run_agreed(part, entries, what); });
    const Lock lock(mutex_);
    // What failed first explains more than what its end has broken here.
    if (!done && failure_) done = tl::unexpected(*failure_);
    for (std::size_t at = 0; at < part.ids.size(); ++at) {
        const Ledger::Id id = part.ids[at];
        ledger_.executed(id, ++serial_);
        // What all ranks refuse has no place in a plan.
        if (done && is_plannable(what, ledger_.at(id).name)) recorder_.executed({id, serial_});
        Entry* entry = entries[at];
        if (entry == nullptr) continue;
        entry->serial = serial_;
        entry->executed_after = entry->after;
        finish(*entry, done);
    }
    progress_ = Clock::now();
    changed_.notify_all();
    // A refused change of process sets leaves the order of messages as it was; so does what all
    // ranks, or the devices of all ranks, refuse alike.
    const Entry* const first = entries.front();
    const bool harmless =
        what.kind == Kind::add_process_set || what.kind == Kind::remove_process_set ||
        (first != nullptr && first->refused) || (what.device && devices_.refused());
    return harmless && !failure_ ? Done() : done;
}

Done Ensemble::run_agreed(const Part& part, const std::vector<Entry*>& entries,
                          const Descriptor& what) {
    if (what.kind == Kind::add_process_set || what.kind == Kind::remove_process_set) {
        const auto id = host_.change_process_sets(what);
        if (!id) return tl::unexpected(id.error());
        entries.front()->result_rows = *id;
        return {};
    }
    const std::string& name = ledger_.at(part.ids.front()).name;
    std::string label = fmt::format("{} \"{}\"", name_of(what.kind), name);
    if (part.ids.size() > 1) label += fmt::format(" and {} more", part.ids.size() - 1);
    const Communicator::Call call{label, serial_, timeout()};
    if (what.device) return run_negotiated_on_device(call, part, entries, what);
    Execution execution(*negotiated_, negotiated_workspace_, trace(), process_set_);
    if (what.kind != Kind::allreduce) return execution.run_single(call, *entries.front());
    std::vector<Tensor> tensors;
    static const std::byte nothing{};
    for (std::size_t at = 0; at < part.ids.size(); ++at) {
        Tensor tensor;
        tensor.count = elements(ledger_.at(part.ids[at]).descriptor);
        if (const Entry* entry = entries[at]; entry != nullptr) {
            tensor.name = entry->name;
            tensor.send = entry->send == nullptr ? &nothing : entry->send;
            tensor.recv = entry->recv;
        }
        tensors.push_back(tensor);
    }
    return execution.allreduce(call, what, tensors);
}

void Ensemble::forget_names() {
    const Lock lock(mutex_);
    const auto kept = [this](Ledger::Id id) {
        const Entry* entry = table_.of(id);
        return lane_.active() && entry != nullptr && entry->item >= 0;
    };
    for (const Ledger::Id id : ledger_.forget(kept)) {
        const Entry* entry = table_.of(id);
        if (entry != nullptr && entry->stage == Entry::Stage::waiting) news_ = true;
        table_.unlink(id);
    }
}

}  // namespace mpi_bridge
