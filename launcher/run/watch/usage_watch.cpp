// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/usage_watch.hpp"

#include <algorithm>
#include <utility>

namespace batchai::run {

namespace {

using std::chrono::seconds;

// What the nodes note is looked at twenty times while a limit passes, and often enough for them to
// go on with their live samples, of which each look takes all.
constexpr int looks_of_a_limit = 20;
constexpr seconds shortest_between_looks{2};
constexpr seconds longest_between_looks{record::live_usage_seconds / 2};
constexpr std::size_t samples_of_a_look = 32;

// The nodes take the first sample when the first task runs.
constexpr seconds longest_without_samples{60};

// Imports, and the first collective of all.
constexpr seconds until_ranks_join{300};

seconds between_looks(const plan::Watch& watch) {
    auto least = static_cast<int>(longest_between_looks.count()) * looks_of_a_limit;
    for (const int limit : {watch.silence, watch.idle_gpu, watch.slow_over}) {
        if (limit > 0) least = std::min(least, limit);
    }
    return std::clamp(seconds(least / looks_of_a_limit), shortest_between_looks,
                      longest_between_looks);
}

}  // namespace

UsageWatch::UsageWatch(Context& context, std::size_t nodes)
    : context_(context),
      watch_(*context.plan.watch),
      work_(nodes),
      slow_(*context.plan.watch),
      next_look_(Clock::now()) {}

void UsageWatch::pause_until(Clock::time_point time) {
    work_.forget();
    next_look_ = time;
}

bool UsageWatch::look(StallClock& stalls, Clock::time_point now) {
    const bool needs_work = stalls.needs_work(now);
    const bool begins = needs_work && !looks_at_work_;
    looks_at_work_ = needs_work;
    if (!needs_work && watch_.slow_percent == 0) return false;
    if (!begins && now < next_look_) return false;
    next_look_ = now + between_looks(watch_);
    if (begins) {
        work_.forget();
        stalls.looks(now);
    }
    // Without such questions, the nodes take fewer and fewer samples. They take some all the same.
    static_cast<void>(record::ask_for_live_usage(context_.files()));
    const auto usage = record::newest_usage(context_.files(), context_.attempt(), context_.start(),
                                            samples_of_a_look);
    slow_.look(usage);
    note_waits(now);
    if (needs_work) note_work(usage, stalls, now);
    return needs_work;
}

void UsageWatch::note_work(const std::vector<record::NodeUsage>& usage, StallClock& stalls,
                           Clock::time_point now) {
    const WorkSeen seen = work_.look(usage, now);
    knows_all_nodes_ = seen.everywhere;
    if (seen.ranks || !seen.known) stalls.worked(now);
    if (seen.gpus || !seen.gpus_known) stalls.gpus_worked(now);
    const bool needs_gpus = watch_.idle_gpu > 0;
    note_unknown(!seen.known || (needs_gpus && !seen.gpus_known), now);
}

void UsageWatch::note_waits(Clock::time_point now) {
    if (watch_.slow_percent == 0 || warned_of_waits_ || slow_.can_compare()) return;
    if (!compares_since_) compares_since_ = now;
    if (now - *compares_since_ < seconds(watch_.slow_over) + until_ranks_join) return;
    warned_of_waits_ = true;
    context_.log.warn(
        "the nodes do not note of two ranks how long they wait in collectives of mpi_bridge, so "
        "\"watch.slowRank\" cannot tell whether one is slow");
}

void UsageWatch::note_unknown(bool unknown, Clock::time_point now) {
    if (!unknown) return unknown_since_.reset();
    if (!unknown_since_) unknown_since_ = now;
    if (now - *unknown_since_ < longest_without_samples || std::exchange(warned_, true)) return;
    context_.log.warn(
        "the nodes do not note what the ranks or their GPUs do, so \"watch.silence\" and "
        "\"watch.idleGpu\" cannot tell whether they stand still");
}

}  // namespace batchai::run
