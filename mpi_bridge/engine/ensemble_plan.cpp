// SPDX-License-Identifier: Apache-2.0
//
// How the members come to a plan, and how they leave it.
#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "engine/ensemble.hpp"

namespace mpi_bridge {
namespace {

// A name that made the members leave their plan that often is left to negotiation.
constexpr int most_strikes = 3;
constexpr Seconds longest_plan_patience{1};
constexpr std::uint64_t most_steps_to_grow = 1U << 16;

}  // namespace

// Of a step's operations, those that are worth planning.
std::vector<Sequenced> Ensemble::choose_planned(
    const std::vector<Recorder::Execution>& step) const {
    std::set<std::string_view> broken_groups;
    for (const auto& [id, serial] : step) {
        const auto& record = ledger_.at(id);
        if (record.strikes >= most_strikes && !record.descriptor.group.empty())
            broken_groups.insert(record.descriptor.group);
    }
    std::vector<Sequenced> sequence;
    for (const auto& [id, serial] : step) {
        const auto& record = ledger_.at(id);
        const bool broken =
            record.strikes >= most_strikes || broken_groups.contains(record.descriptor.group);
        if (!broken && record.settled) sequence.push_back({id, &record.descriptor, serial, 0});
    }
    return sequence;
}

// After a round: when a whole step has been seen, makes it the plan. All members see it after the
// same round, and add to it what only each of them knows: what of it must not share a bucket.
Done Ensemble::consider_plan() {
    const auto any = [](std::uint64_t word) { return word != 0; };
    if (std::any_of(joined_.begin(), joined_.end(), any)) return {};
    if (lane_.active()) return consider_growth();
    const auto step = recorder_.step();
    if (!step) return {};
    auto sequence = choose_planned(*step);
    recorder_.restart();
    if (sequence.empty()) return {};

    const Activity activity{{}, Phase::verify_plan, MPIB_BARRIER, process_set_};
    trace().timeline.begin(activity);
    std::vector<Announcement> contents;
    std::vector<Word> words(sequence.size() + 2);
    {
        const Lock lock(mutex_);
        for (std::size_t at = 0; at < sequence.size(); ++at) {
            const auto& record = ledger_.at(sequence[at].id);
            contents.push_back({record.name, record.descriptor});
            const Entry* entry = table_.of(sequence[at].id);
            words[at].number = entry == nullptr ? 0 : entry->executed_after;
        }
    }
    const std::uint64_t digest = digest_of(encode(contents));
    words[sequence.size()].number = digest;
    words[sequence.size() + 1].number = ~digest;
    if (auto done = agree(*control_, "control round (plan)", timeout(), words); !done) return done;
    if (words[sequence.size()].number != digest || words[sequence.size() + 1].number != ~digest) {
        return fail(MPIB_ERROR_INTERNAL, "ranks have recorded different plans");
    }
    for (std::size_t at = 0; at < sequence.size(); ++at)
        sequence[at].after = words[at].number;
    if (planned_ == nullptr) {
        if (auto done = open(planned_, Channel::Lane::planned); !done) return done;
        planned_execution_.emplace(*planned_, planned_workspace_, trace(), process_set_);
    }
    adopt(make_spots(sequence));
    trace().timeline.end(activity);
    return {};
}

// There is a plan, and steps are seen beside it. When there were enough of them, the plan is left
// for one that has them too. Names that come in another rhythm than the plan's will not fit into
// any: so it takes twice as many steps each time.
Done Ensemble::consider_growth() {
    const auto step = recorder_.step();
    if (!step) return {};
    recorder_.restart_after_step();
    if (choose_planned(*step).empty() || ++steps_beside_plan_ < steps_to_grow_) return {};
    steps_to_grow_ = std::min(steps_to_grow_ * 2, most_steps_to_grow);
    return leave_plan(false);
}

std::vector<Lane::Spot> Ensemble::make_spots(const std::vector<Sequenced>& sequence) const {
    const EngineSettings& settings = host_.parts().settings;
    std::vector<Lane::Spot> spots;
    for (const Item& item :
         arrange(sequence, {std::min(settings.first_bucket_bytes, settings.bucket_bytes),
                            settings.bucket_bytes})) {
        Lane::Spot spot;
        spot.operations = item.operations;
        spot.missing = item.operations;
        spot.bytes = item.bytes;
        for (const Part& part : item.parts) {
            Lane::Tensors tensors;
            tensors.ids = part.ids;
            tensors.what = ledger_.at(part.ids.front()).descriptor;
            tensors.bytes = part.bytes;
            for (const std::uint32_t id : part.ids)
                tensors.counts.push_back(elements(ledger_.at(id).descriptor));
            tensors.label = fmt::format("planned {} \"{}\"", name_of(tensors.what.kind),
                                        ledger_.at(part.ids.front()).name);
            if (part.ids.size() > 1)
                tensors.label += fmt::format(" and {} more", part.ids.size() - 1);
            spot.parts.push_back(std::move(tensors));
        }
        spots.push_back(std::move(spot));
    }
    return spots;
}

// What waits here already of the plan's names waits in the plan from now on.
void Ensemble::adopt(std::vector<Lane::Spot> spots) {
    const Lock lock(mutex_);
    if (failure_) return;
    lane_.adopt(std::move(spots));
    wants_to_leave_ = joined_here_;
    int item = 0;
    for (const Lane::Spot& spot : lane_.spots()) {
        for (const Lane::Tensors& part : spot.parts) {
            for (const std::uint32_t id : part.ids) {
                Entry* entry = table_.of(id);
                if (entry == nullptr) continue;
                entry->item = item;
                if (entry->stage != Entry::Stage::waiting) continue;
                if (entry->settled) {
                    entry->planned = true;
                    --lane_.at(item).missing;
                } else {
                    wants_to_leave_ = true;
                }
            }
        }
        ++item;
    }
    if (wants_to_leave_) news_ = true;
    lane_.head().filled = Clock::now();
    trace().counters.add_plan_made();
    trace().timeline.mark("plan made", {-1, -1, -1, static_cast<std::int64_t>(lane_.epoch())});
    if (!lane_thread_.joinable()) {
        lane_ended_ = false;
        lane_thread_ = std::thread([this] { work_lane(); });
    }
    lane_work_.notify_one();
    changed_.notify_all();
}

void Ensemble::want_to_leave() {
    if (wants_to_leave_) return;
    wants_to_leave_ = true;
    order_changed_ = true;
    news_ = true;
    host_.parts().wake();
}

// Brings all members to the same place of the plan, where nothing runs and nothing is started; see
// ensemble.hpp. words[0] is overwritten, the others are agreed on; the lock is held afterwards.
Done Ensemble::stop_together(std::string_view step, std::span<Word> words, Lock& lock) {
    lane_.frozen = true;
    words[0].number = lane_.started();
    lock.unlock();
    auto done = agree(*control_, step, timeout(), words);
    lock.lock();
    if (!done) return done;
    // What this rank is in the middle of ends: all members are in it, or will be in a moment.
    changed_.wait(lock, [this] { return !lane_.busy; });
    if (lane_.started() < words[0].number) run_head(lock, lane_.head().missing == 0);
    if (failure_) return tl::unexpected(*failure_);
    return {};
}

// For what needs an order beside the plan's. An item that not all had is tried again afterwards.
Done Ensemble::pause_plan() {
    Word word;
    Lock lock(mutex_);
    return stop_together("control round (pausing the plan)", {&word, 1}, lock);
}

void Ensemble::resume_plan() {
    const Lock lock(mutex_);
    if (failure_) return;
    lane_.frozen = false;
    changed_.notify_all();
    lane_work_.notify_one();
}

// The second half of a round in which somebody asked to leave the plan; see ensemble.hpp.
Done Ensemble::leave_plan(bool asked) {
    std::vector<Word> words(1 + (ledger_.size() + 63) / 64);
    Lock lock(mutex_);
    if (order_changed_ && !lane_.busy && lane_.head().missing != 0) {
        for (const Lane::Tensors& part : lane_.head().parts) {
            for (const std::uint32_t id : part.ids) {
                const Entry* entry = table_.of(id);
                if (entry == nullptr || !entry->planned)
                    words[1 + id / 64].mask |= std::uint64_t{1} << (id % 64);
            }
        }
    }
    auto done = stop_together("control round (leaving the plan)", words, lock);
    if (!done) return done;
    lane_.drop();
    lane_.frozen = false;
    wants_to_leave_ = false;
    order_changed_ = false;
    for (Index index = 0; index < table_.size(); ++index) {
        Entry& entry = table_.at(index);
        entry.item = -1;
        if (!entry.planned) continue;
        entry.planned = false;
        entry.reported = false;
        entry.announced = false;
        news_ = true;
    }
    for (Ledger::Id id = 0; id < ledger_.size(); ++id) {
        if ((words[1 + id / 64].mask >> (id % 64) & 1) != 0) ledger_.strike(id);
    }
    recorder_.restart();
    steps_beside_plan_ = 0;
    if (asked) plan_patience_ = std::min(plan_patience_ * 2, longest_plan_patience);
    trace().counters.add_plan_broken();
    trace().timeline.mark("plan left", {-1, -1, -1, static_cast<std::int64_t>(lane_.epoch())});
    changed_.notify_all();
    return {};
}

}  // namespace mpi_bridge
