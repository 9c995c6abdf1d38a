// SPDX-License-Identifier: Apache-2.0
//
// The planned lane at work.
#include "engine/catching.hpp"
#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

// Who submits small tensors usually waits for them right away, and is quicker than a thread that
// must be woken. So the lane's thread leaves them alone for a moment, and as long as they keep
// coming it looks at them by itself now and then, which saves the submitters a wake-up each.
constexpr std::chrono::milliseconds nap{1};
constexpr std::chrono::milliseconds nap_after_last{20};

}  // namespace

void Ensemble::gather_tensors(const Lane::Tensors& part, std::size_t first_entry, bool whole) {
    lane_.tensors.clear();
    for (std::size_t at = 0; at < part.ids.size(); ++at) {
        Tensor tensor;
        tensor.count = part.counts[at];
        if (whole) {
            const Entry& entry = *lane_.entries[first_entry + at];
            tensor.name = entry.name;
            tensor.send = entry.send;
            tensor.recv = entry.recv;
            static const std::byte nothing{};
            if (tensor.send == nullptr) tensor.send = &nothing;  // no elements
        }
        lane_.tensors.push_back(tensor);
    }
}

Outcome<bool> Ensemble::all_whole(std::string_view label, bool whole) {
    Word word{whole ? 0U : 1U, lane_.agreement()};
    if (auto done = agree(*planned_, label, timeout(), {&word, 1}); !done)
        return pass_on(std::move(done));
    return word.mask == 0;
}

// Runs all of an item, or nothing, on all ranks alike. Without the lock.
Outcome<bool> Ensemble::run_spot(Lane::Spot& spot, bool whole) {
    const Lane::Tensors& first = spot.parts.front();
    const Communicator::Call call{first.label, lane_.agreement(), timeout()};
    if (spot.parts.size() == 1 && planned_execution_->can_check_in_band(first.what, first.bytes)) {
        gather_tensors(first, 0, whole);
        return planned_execution_->allreduce_if_whole(call, first.what, lane_.tensors, whole);
    }
    auto agreed = all_whole(first.label, whole);
    if (!agreed || !*agreed || first.what.kind == Kind::barrier) return agreed;
    std::size_t entries = 0;
    for (const Lane::Tensors& part : spot.parts) {
        Done done;
        if (part.what.device) {
            done = run_planned_on_device(part, entries);
        } else if (part.what.kind == Kind::allreduce) {
            gather_tensors(part, entries, whole);
            done = planned_execution_->allreduce({part.label, lane_.agreement(), timeout()},
                                                 part.what, lane_.tensors);
        } else {
            done = planned_execution_->run_single({part.label, lane_.agreement(), timeout()},
                                                  *lane_.entries[entries]);
        }
        if (!done) return pass_on(std::move(done));
        entries += part.ids.size();
    }
    return true;
}

// Runs the head on the calling thread; `whole`: this rank has submitted all of it.
void Ensemble::run_head(Lock& lock, bool whole) {
    Lane::Spot& spot = lane_.head();
    lane_.start();
    lane_.entries.clear();
    for (const Lane::Tensors& part : spot.parts) {
        for (const std::uint32_t id : part.ids) {
            Entry* entry = table_.of(id);
            lane_.entries.push_back(entry);
            if (whole) entry->stage = Entry::Stage::running;
        }
    }
    lock.unlock();
    auto outcome = catching([&] { return run_spot(spot, whole); });
    lock.lock();
    const bool executed = outcome && *outcome;
    lane_.finish(executed);
    // What failed first explains more than what its end has broken here.
    if (!executed && failure_) outcome = tl::unexpected(*failure_);
    for (Entry* entry : lane_.entries) {
        if (!whole) break;
        if (executed) {
            finish(*entry, {});
        } else if (!outcome) {
            finish(*entry, tl::unexpected(outcome.error()));
        } else {
            entry->stage = Entry::Stage::waiting;
        }
    }
    if (executed) {
        progress_ = Clock::now();
        trace().counters.add_planned_bucket();
    }
    if (blocked_ != 0 || lane_.frozen) changed_.notify_all();
    if (outcome) return;
    const Failure failure = outcome.error();
    lock.unlock();
    host_.fail_all(failure);
    lock.lock();
}

// A thread that worked the lane goes its way: others must see to what is left.
void Ensemble::hand_over_lane() {
    if (!lane_.can_run()) return;
    if (blocked_ != 0) changed_.notify_all();
    if (!lane_naps_ || lane_.head().bytes > small_item_bytes) lane_work_.notify_one();
}

void Ensemble::work_lane() {
    Lock lock(mutex_);
    auto last_work = Clock::now();
    while (!ending_) {
        const auto now = Clock::now();
        const bool ready = lane_.can_run();
        const bool small = ready && lane_.head().bytes <= small_item_bytes;
        if (ready && (!small || now >= lane_.head().filled + nap)) {
            run_head(lock, true);
            last_work = Clock::now();
            continue;
        }
        if (ready || lane_.finished() != napped_at_) last_work = now;
        napped_at_ = lane_.finished();
        lane_naps_ = now < last_work + nap_after_last;
        if (lane_naps_) {
            lane_work_.wait_for(lock, nap);
        } else {
            lane_work_.wait(lock);
        }
    }
    lane_naps_ = false;
    lane_ended_ = true;
    changed_.notify_all();
}

}  // namespace mpi_bridge
