// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/watcher.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "job/line_pattern.hpp"
#include "plan/retry.hpp"
#include "record/start_notes.hpp"
#include "run/srun/srun_arguments.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/nccl_text.hpp"
#include "visit/stacks/suspect.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;

constexpr seconds between_looks_for_start{2};

// To write its stack is work of a process, too.
constexpr seconds after_stacks{5};

// A job that stands still so often does not need to be told of it.
constexpr int most_alarms_of_a_start = 20;

std::optional<job::LinePattern> pattern_of(const std::optional<plan::Watch>& watch) {
    if (!watch || watch->pattern.empty()) return std::nullopt;
    auto pattern = job::LinePattern::compile(watch->pattern);
    return pattern ? std::optional(std::move(*pattern)) : std::nullopt;
}

// Where the ranks are.
struct Whereabouts {
    std::string text;  // for a file of the logs
    std::string where;
    std::optional<visit::Suspect> suspect;
};

Whereabouts whereabouts(const StacksFound& found, bool has_servers) {
    const auto groups = visit::stack_groups(found.nodes);
    Whereabouts place{.text = {}, .where = {}, .suspect = {}};
    for (const auto& [node, why] : found.missing)
        place.text += fmt::format("{}: {}\n", node, why);
    // Where the ranks of some nodes only are known, nobody can say which ones have not come.
    if (found.missing.empty()) place.text += visit::frameworks_text(found.nodes);
    if (!place.text.empty()) place.text += '\n';
    place.text += visit::stacks_text(groups) + visit::nccl_text(found.nodes);
    // The stacks do not tell parameter servers from ranks.
    if (has_servers) return place;
    if (found.missing.empty()) place.suspect = visit::suspect(found.nodes, groups);
    place.where = place.suspect ? place.suspect->where : visit::summary(groups);
    for (const auto& [node, why] : found.missing)
        place.where += fmt::format("{}{}: {}", place.where.empty() ? "" : "; ", node, why);
    return place;
}

// Where the other ranks are at this moment does not say why some are slow. These may be on one
// node.
void single_out(const std::vector<SlowRank>& slow, const StacksFound& found, Whereabouts& place) {
    const SlowRank& first = slow.front();
    place.where.clear();
    place.suspect.reset();
    if (!std::all_of(slow.begin(), slow.end(),
                     [&](const SlowRank& one) { return one.node == first.node; }))
        return;
    place.suspect = visit::Suspect{.rank = {}, .node = first.node, .where = {}};
    if (slow.size() > 1) return;
    place.suspect->rank = first.rank;
    const auto groups = visit::stack_groups(found.nodes, first.rank);
    if (!groups.empty()) place.where = groups.front().where;
}

Ending ended_by_watch(Stalled what, const record::Alarm& alarm) {
    const auto by = what == Stalled::slow_rank ? record::EndedBy::slow : record::EndedBy::hang;
    const record::EndWords words = record::words_of(by);
    return {
        .failure = {.code = std::string(words.code),
                    .message = std::string(words.message),
                    .phase = std::string(Ranks::name),
                    .node = alarm.node,
                    .rank = alarm.rank,
                    .first_error_line = alarm.where.empty()
                                            ? alarm.message
                                            : fmt::format("{}: {}", alarm.message, alarm.where)},
        .by = by,
        .may_start_again = true,
        .of_node = !alarm.node.empty(),
        .knows_cause = true};
}

}  // namespace

Watcher::Watcher(Context& context, const plan::Step& step)
    : context_(context),
      on_(context.plan.watch.has_value()),
      lines_(pattern_of(context.plan.watch)),
      next_look_for_start_(Clock::now()),
      stopped_(next_look_for_start_),
      webhook_(context) {
    if (!on_) return;
    usage_.emplace(context, step.kind == plan::StepKind::master ? 1 : context.place.nodes.size());
}

void Watcher::saw(std::size_t rank, record::RankStream stream, std::string_view bytes) {
    if (!on_) return;
    const auto now = look_at_clock();
    if (!stalls_) stalls_.emplace(*context_.plan.watch, now);
    const std::size_t number = 2 * rank + (stream == record::RankStream::output ? 0 : 1);
    // Nobody knows what it was that could not be read.
    const LinesSeen seen =
        bytes.empty() ? LinesSeen{.printed = true, .progressed = true} : lines_.feed(number, bytes);
    if (seen.printed) stalls_->printed(now);
    if (seen.progressed) stalls_->progressed(now);
}

Watcher::Clock::time_point Watcher::look_at_clock() {
    const auto now = Clock::now();
    const auto stopped = stopped_.look(now);
    if (stalls_ && stopped.count() > 0) stalls_->leave_out(stopped);
    return now;
}

// Slurm may take long to start the step, for instance while its controller does not answer.
bool Watcher::ranks_have_begun(Clock::time_point now) {
    if (stalls_) return true;
    if (now < next_look_for_start_) return false;
    next_look_for_start_ = now + between_looks_for_start;
    if (record::started_tasks(context_.files(), context_.start(), 0).empty()) return false;
    stalls_.emplace(*context_.plan.watch, now);
    return true;
}

void Watcher::poll(bool may_end) {
    if (old_look_ && old_look_->has_ended()) old_look_.reset();
    webhook_.poll();
    const auto now = look_at_clock();
    if (!on_ || ending_ || !ranks_have_begun(now)) return;
    if (look_) {
        if (look_->poll(std::chrono::milliseconds(0))) tell();
        return;
    }
    if (usage_->look(*stalls_, now)) {
        for (ToEnd& one : to_end_)
            ++one.looks;
    }
    if (may_end) decide(now);
    stall_ = change(now);
    if (!stall_) return;
    if (stall_->what != Stalled::slow_rank) stands_still_ = stall_->begins;
    if (!stall_->begins) return context_.log.say(text_of(*std::exchange(stall_, std::nullopt)));
    if (!old_look_) look_at_stacks();
    if (!look_) tell();
}

std::optional<StallChange> Watcher::change(Clock::time_point now) {
    if (auto stall = stalls_->poll(now)) return stall;
    return tells_of_slow_ranks_ ? usage_->slow_ranks().poll() : std::nullopt;
}

bool Watcher::lasts(Stalled what, Clock::time_point now) const {
    return what == Stalled::slow_rank ? usage_->slow_ranks().is_slow()
                                      : stalls_->stands_still(what, now);
}

void Watcher::finish(bool in_a_hurry) {
    if (look_) static_cast<void>(look_->poll(std::chrono::milliseconds(0)));
    if (stall_) tell();
    webhook_.finish(in_a_hurry);
}

void Watcher::look_at_stacks() {
    auto look = StackLook::start(context_.granted.job_id, context_.place.nodes, {},
                                 environment_of_bare_nodes());
    if (look)
        look_.emplace(std::move(*look));
    else
        context_.log.say("the nodes cannot be asked where the ranks are: " + look.error().text());
}

void Watcher::tell() {
    Whereabouts place;
    base::Result<StacksFound> found = StacksFound{};
    if (look_) {
        found = look_->found();
        if (found)
            place =
                whereabouts(*found, context_.step(plan::StepKind::parameter_servers) != nullptr);
        else
            context_.log.say("no node says where the ranks are: " + found.error().text());
        look_->end();
        old_look_.emplace(std::move(*look_));
        look_.reset();
        usage_->pause_until(Clock::now() + after_stacks);
    }
    const StallChange stall = *std::exchange(stall_, std::nullopt);
    if (!stall.slow.empty()) single_out(stall.slow, found ? *found : StacksFound{}, place);
    record::Alarm alarm{.time = base::now(), .message = text_of(stall), .where = place.where};
    if (place.suspect) {
        alarm.node = place.suspect->node;
        alarm.rank = place.suspect->rank;
    }
    const bool is_slow = stall.what == Stalled::slow_rank;
    const int count = ++(is_slow ? slow_alarms_ : alarms_);
    if (!place.text.empty()) {
        alarm.stacks = fmt::format("stacks-{}-{}.txt", context_.start(), alarms_ + slow_alarms_);
        context_.logs.append_text(alarm.stacks,
                                  fmt::format("{}  {}\n\n{}", base::to_iso8601_seconds(alarm.time),
                                              alarm.message, place.text));
    }
    context_.log.say(alarm.stacks.empty()
                         ? record::sentence_of(alarm)
                         : fmt::format("{} ({})", record::sentence_of(alarm), alarm.stacks));
    context_.alarmed(alarm);
    webhook_.tell(alarm);
    const bool ends = context_.plan.watch->ends;
    if (ends) to_end_.push_back({.what = stall.what, .alarm = std::move(alarm)});
    // Slow ranks may stay although they are to be ended.
    if (count == most_alarms_of_a_start && (is_slow || !ends)) {
        context_.log.say(is_slow ? "ranks have been slow often, and \"watch\" tells no more of it"
                                 : "the job has stood still often, and \"watch\" tells no more");
        if (is_slow) {
            tells_of_slow_ranks_ = false;
        } else {
            on_ = false;
            stands_still_ = false;
        }
    }
}

std::string Watcher::why_slow_ranks_stay(const record::Alarm& alarm) const {
    const bool has_spares = context_.plan.allocation.spare_nodes > 0;
    const bool runs_again = context_.plan.retry && plan::retries_on(*context_.plan.retry, "slow");
    // A job that is only to end does so.
    if (!has_spares && !context_.elastic && !runs_again) return {};
    if (alarm.node.empty()) return "slow ranks are on several nodes";
    return context_.why_not_without(alarm.node);
}

void Watcher::decide(Clock::time_point now) {
    std::erase_if(to_end_, [&](const ToEnd& one) { return !lasts(one.what, now); });
    for (ToEnd& one : to_end_) {
        const bool by_work = one.what == Stalled::silence || one.what == Stalled::gpus;
        // Of what the ranks have done since they were asked, the second look is the first to tell.
        if (by_work && one.looks < 2) continue;
        std::string why;
        if (one.what == Stalled::slow_rank) why = why_slow_ranks_stay(one.alarm);
        if (by_work && !usage_->knows_all_nodes())
            why = "some node does not note what its ranks do";
        if (why.empty()) {
            ending_ = ended_by_watch(one.what, one.alarm);
            return;
        }
        if (!std::exchange(one.said, true))
            context_.log.say(fmt::format("the ranks are not ended as long as {}", why));
    }
}

}  // namespace batchai::run
