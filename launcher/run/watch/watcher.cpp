// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/watcher.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/timestamp.hpp"
#include "job/line_pattern.hpp"
#include "record/usage.hpp"
#include "run/srun/srun_arguments.hpp"
#include "visit/stacks/bridges.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/suspect.hpp"

namespace batchai::run {

namespace {

using std::chrono::seconds;

// What the nodes note is looked at twenty times while a limit passes.
constexpr int looks_of_a_limit = 20;
constexpr seconds shortest_between_looks{2};
constexpr seconds longest_between_looks{30};

seconds between_looks(const plan::Watch& watch) {
    int limit = std::max(watch.silence, watch.idle_gpu);
    for (const int one : {watch.silence, watch.idle_gpu})
        if (one > 0) limit = std::min(limit, one);
    return std::clamp(seconds(limit / looks_of_a_limit), shortest_between_looks,
                      longest_between_looks);
}

// The nodes take the first sample when the first task runs.
constexpr seconds longest_without_samples{60};

// Where the ranks are.
struct Whereabouts {
    std::string text;  // for a file of the logs
    std::string where;
    std::optional<visit::Suspect> suspect;
};

Whereabouts whereabouts(const StacksFound& found, std::size_t nodes) {
    const auto groups = visit::stack_groups(found.nodes);
    Whereabouts place{.text = {}, .where = visit::summary(groups), .suspect = {}};
    for (const auto& [node, why] : found.missing)
        place.text += fmt::format("{}: {}\n", node, why);
    // Where the ranks of some nodes only are known, nobody can say which ones have not come.
    if (found.nodes.size() == nodes) {
        place.text += visit::bridge_text(found.nodes);
        place.suspect = visit::suspect(found.nodes, groups);
    } else if (found.missing.size() == 1) {
        place.suspect = visit::Suspect{
            .rank = {}, .node = found.missing.front().node, .where = found.missing.front().why};
    }
    if (!place.text.empty()) place.text += '\n';
    place.text += visit::stacks_text(groups);
    if (place.suspect && !place.suspect->where.empty()) place.where = place.suspect->where;
    return place;
}

}  // namespace

Watcher::Watcher(Context& context)
    : context_(context), work_(context.start()), next_work_look_(Clock::now()) {
    if (!context.plan.watch) return;
    stalls_.emplace(*context.plan.watch, Clock::now());
    if (context.plan.watch->pattern.empty()) return;
    if (auto pattern = job::LinePattern::compile(context.plan.watch->pattern))
        lines_.emplace(std::move(*pattern));
}

void Watcher::saw(std::size_t rank, record::RankStream stream, std::string_view bytes) {
    if (!stalls_ || bytes.empty()) return;
    const auto now = Clock::now();
    stalls_->printed(now);
    const std::size_t number = 2 * rank + (stream == record::RankStream::output ? 0 : 1);
    if (lines_ && lines_->feed(number, bytes)) stalls_->progressed(now);
}

void Watcher::look_at_work(Clock::time_point now) {
    if (!stalls_->needs_work(now)) {
        looks_at_work_ = false;
        return;
    }
    if (looks_at_work_ && now < next_work_look_) return;
    next_work_look_ = now + between_looks(*context_.plan.watch);
    if (!std::exchange(looks_at_work_, true)) {
        work_.forget();
        stalls_->looks(now);
    }
    // Without such questions, the nodes take fewer and fewer samples. They take some all the same.
    static_cast<void>(record::ask_for_live_usage(context_.files()));
    const WorkSeen seen = work_.look(record::newest_usage(context_.files(), context_.attempt()));
    if (seen.ranks || !seen.known) stalls_->worked(now);
    if (seen.gpus || !seen.gpus_known) stalls_->gpus_worked(now);
    const bool needs_gpus = context_.plan.watch->idle_gpu > 0;
    note_unknown(!seen.known || (needs_gpus && !seen.gpus_known), now);
}

void Watcher::note_unknown(bool unknown, Clock::time_point now) {
    if (!unknown) return unknown_since_.reset();
    if (!unknown_since_) unknown_since_ = now;
    if (now - *unknown_since_ < longest_without_samples || std::exchange(warned_, true)) return;
    context_.log.warn(
        "the nodes do not note what the ranks or their GPUs do, so \"watch.silence\" and "
        "\"watch.idleGpu\" cannot tell whether they stand still");
}

void Watcher::poll() {
    if (!stalls_ || ending_) return;
    if (look_) {
        if (look_->poll(std::chrono::milliseconds(0))) tell();
        return;
    }
    const auto now = Clock::now();
    look_at_work(now);
    const auto change = stalls_->poll(now);
    if (!change) return;
    if (!change->begins) return say(text_of(*change));
    stall_ = change;
    look_at_stacks();
}

void Watcher::look_at_stacks() {
    auto look = StackLook::start(context_.granted.job_id, context_.place.nodes, false,
                                 environment_of_bare_nodes());
    if (look) {
        look_.emplace(std::move(*look));
        return;
    }
    say("the nodes cannot be asked where the ranks are: " + look.error().text());
    tell();
}

void Watcher::tell() {
    Whereabouts place;
    if (look_) {
        const auto found = look_->found();
        look_.reset();
        if (found)
            place = whereabouts(*found, context_.place.nodes.size());
        else
            say("no node says where the ranks are: " + found.error().text());
    }
    const StallChange stall = *std::exchange(stall_, std::nullopt);
    record::Alarm alarm{.time = base::now(), .message = text_of(stall), .where = place.where};
    if (place.suspect) {
        alarm.node = place.suspect->node;
        alarm.rank = place.suspect->rank;
    }
    if (!place.text.empty()) {
        alarm.stacks = fmt::format("stacks-{}-{}.txt", context_.start(), ++told_);
        context_.logs.append_text(alarm.stacks,
                                  fmt::format("{}  {}\n\n{}", base::to_iso8601_seconds(alarm.time),
                                              alarm.message, place.text));
    }
    say(alarm.stacks.empty() ? record::sentence_of(alarm)
                             : fmt::format("{} ({})", record::sentence_of(alarm), alarm.stacks));
    context_.alarmed(alarm);
    // They may have gone on while the nodes were asked.
    if (!context_.plan.watch->ends || !stalls_->stands_still(stall.what, Clock::now())) return;
    const record::EndWords words = record::words_of(record::EndedBy::hang);
    ending_ = Ending{
        .failure = {.code = std::string(words.code),
                    .message = std::string(words.message),
                    .phase = std::string(Ranks::name),
                    .node = alarm.node,
                    .rank = alarm.rank,
                    .first_error_line = place.where.empty()
                                            ? alarm.message
                                            : fmt::format("{}: {}", alarm.message, place.where)},
        .by = record::EndedBy::hang,
        .may_start_again = true};
}

void Watcher::say(const std::string& line) {
    context_.log.master(line);
    std::printf("batchai: %s\n", line.c_str());
    std::fflush(stdout);
}

}  // namespace batchai::run
