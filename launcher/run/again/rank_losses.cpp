// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/again/rank_losses.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/timestamp.hpp"
#include "plan/elastic.hpp"
#include "run/again/host_updates.hpp"
#include "run/blame/slurm_words.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

RankLosses::RankLosses(Context& context, record::RankPlaces places, TaskWords words, Silent silent)
    : context_(context),
      places_(std::move(places)),
      words_(std::move(words)),
      silent_(std::move(silent)),
      on_(context.keeps_processes()) {
    if (!context_.elastic || !context_.elastic->keeps_processes) return;
    record::forget_ranks_lost(context_.files());
    if (!on_)
        context_.log.master(
            "the ranks do not outlive each other, because it is not known on which "
            "node each of them runs");
}

const std::string& RankLosses::node_of(int task) const {
    static const std::string unknown;
    const auto index = static_cast<std::size_t>(task);
    return task >= 0 && index < places_.nodes.size() ? places_.nodes[index] : unknown;
}

bool RankLosses::has_ended(int task) const {
    const std::string& node = node_of(task);
    return lost_.contains(task) || newly_dead_.contains(node) || dead_.contains(node) ||
           std::any_of(ends_.begin(), ends_.end(),
                       [&](const TaskEnd& end) { return end.task == task; });
}

bool RankLosses::is_open() const {
    return !ends_.empty() || !newly_dead_.empty();
}

std::string RankLosses::without_lost(std::string_view messages) const {
    return lost_.empty() ? std::string(messages) : without_ends(messages, lost_, dead_);
}

// srun ends with the worst exit code of all tasks. Any other may be a failure of its own, which it
// need not have put into words that are known here.
bool RankLosses::is_explained(const StepResult& result) const {
    // This process kills srun only because it would have waited for a dead node.
    if (!result.dead_nodes.empty()) return others_have_ended_;
    if (result.srun_killed_by) return false;
    const std::vector<TaskEnd> ends = bad_ends_of(result.messages, lost_);
    return std::any_of(
               ends.begin(), ends.end(),
               [&](const TaskEnd& end) { return exit_code_of(end, 0) == result.exit_code; }) ||
           have_others_said_that_they_end();
}

void RankLosses::leave_out_lost(StepResult& result) const {
    if (lost_.empty()) return;
    const bool explained = is_explained(result);
    result.messages = without_lost(result.messages);
    if (result.stopped_by || result.ended_on_request || must_end_ || !explained) return;
    if (!bad_ends(result.messages).empty() || !failed_nodes(result.messages).empty() ||
        end_of_step(result.messages) || !result.not_started.empty())
        return;
    result.dead_nodes.clear();
    result.exit_code = 0;
}

void RankLosses::poll(std::string_view messages, const std::vector<std::string>& dead,
                      Clock::time_point now) {
    if (!on_ || must_end_) return;
    if (messages.size() != read_) {
        read_ = messages.size();
        open_messages_ = without_lost(messages);
        ends_ = bad_ends(open_messages_);
    }
    note_dead_nodes(dead);
    if (!is_open()) {
        open_since_.reset();
        if (now < next_look_) return;
        next_look_ = now + between_looks_without_loss;
        look_whether_ranks_have_ended(now);
    } else if (!open_since_) {
        open_since_ = now;
        // Ranks that end on purpose end one after the other.
        if (context_.host_updates != nullptr && context_.host_updates->ranks_have_left())
            return end({});
        if (!record::ranks_stay(context_.files(), context_.start()))
            return end("they have not said that they can");
    }
    const auto question = record::ranks_lost(context_.files(), context_.start());
    if (!question || question->number == answered_) {
        asked_.reset();
        are_doubtful_ = false;
        silences_.clear();
        if (open_since_ && now - *open_since_ > longest_silence)
            end(fmt::format("they have not asked for {} s", longest_silence.count()));
        return;
    }
    if (!asked_ || asked_->number != question->number) asked_ = {question->number, now};
    const bool is_of_lost = std::any_of(question->here.begin(), question->here.end(),
                                        [&](int task) { return lost_.contains(task); });
    if (!is_of_lost) note_silent_nodes(*question);
    const auto why_not =
        is_of_lost ? std::optional<std::string>("the others have gone on without these ranks")
                   : judged(*question, now);
    if (!why_not) return;
    const auto answered =
        record::answer(context_.files(), {.number = question->number, .refusal = *why_not});
    answered_ = question->number;
    asked_.reset();
    are_doubtful_ = false;
    if (!answered) return end(answered.error().text());
    // Those who have gone on need not end because of the other part of a torn network.
    if (is_of_lost) return;
    if (!why_not->empty()) return end(*why_not);
    go_on(*question);
}

void RankLosses::note_dead_nodes(const std::vector<std::string>& dead) {
    for (const std::string& node : dead) {
        bool has_ranks = false;
        for (int task = 0; task < static_cast<int>(places_.nodes.size()); ++task)
            has_ranks = has_ranks || (node_of(task) == node && !lost_.contains(task));
        if (has_ranks)
            newly_dead_.insert(node);
        else if (contains(places_.nodes, node))
            dead_.insert(node);
    }
}

bool RankLosses::have_others_said_that_they_end() const {
    const std::set<int> ended = record::ended_ranks(context_.files(), context_.start());
    for (int task = 0; task < static_cast<int>(places_.nodes.size()); ++task) {
        if (!lost_.contains(task) && !ended.contains(task)) return false;
    }
    return true;
}

void RankLosses::look_whether_ranks_have_ended(Clock::time_point now) {
    if (dead_.empty()) return;
    if (!have_others_said_that_they_end()) return;
    if (!ended_since_) ended_since_ = now;
    others_have_ended_ = now - *ended_since_ >= end_of_ranks;
}

// The ranks have waited for an answer of the host already, so this need not wait for long.
void RankLosses::note_silent_nodes(const record::RanksLost& question) {
    std::vector<std::string> doubtful;
    for (const int task : question.lost) {
        const std::string& node = node_of(task);
        if (!node.empty() && !has_ended(task) && !contains(doubtful, node))
            doubtful.push_back(node);
    }
    are_doubtful_ = !doubtful.empty();
    if (doubtful.empty()) return;
    const std::vector<std::string> silent = silent_(doubtful);
    for (const std::string& node : doubtful) {
        if (!contains(silent, node))
            silences_.erase(node);
        else if (++silences_[node] >= least_silences)
            newly_dead_.insert(node);
    }
}

std::optional<std::string> RankLosses::judged(const record::RanksLost& question,
                                              Clock::time_point now) {
    std::vector<int> doubtful;
    std::copy_if(question.lost.begin(), question.lost.end(), std::back_inserter(doubtful),
                 [&](int task) { return !has_ended(task); });
    if (!doubtful.empty()) {
        if (now - asked_->since < longest_doubt) return std::nullopt;
        return fmt::format("rank {} is said to be lost, but has not ended", doubtful.front());
    }
    std::set<int> known(question.lost.begin(), question.lost.end());
    known.insert(question.here.begin(), question.here.end());
    known.insert(lost_.begin(), lost_.end());
    if (known.size() != places_.nodes.size()) return "nobody knows where all ranks are";
    std::set<std::string> left;
    for (const int task : question.here)
        left.insert(node_of(task));
    const int least = context_.elastic->least_nodes;
    if (static_cast<int>(left.size()) < least)
        return fmt::format("only {} nodes are left, but {} are needed ({})", left.size(), least,
                           plan::elastic_nodes_variable);
    const bool loses_node = std::any_of(question.lost.begin(), question.lost.end(),
                                        [&](int task) { return !left.contains(node_of(task)); });
    if (loses_node && !context_.place.spares.empty())
        return "a spare node takes the place of one that is lost";
    return std::string();
}

record::Failure RankLosses::failure_of(const std::vector<int>& lost) const {
    record::Failure failure{.phase = std::string(record::phase_of_ranks)};
    auto by = record::EndedBy::program;
    const auto of_dead_node = std::find_if(
        lost.begin(), lost.end(), [&](int task) { return newly_dead_.contains(node_of(task)); });
    if (of_dead_node != lost.end()) {
        failure.node = node_of(*of_dead_node);
        by = record::EndedBy::node;
    } else {
        const Blame blamed = blame(failure, 1, open_messages_, words_);
        by = blamed.for_memory ? record::EndedBy::memory
                               : end_of_step(open_messages_).value_or(record::EndedBy::program);
    }
    const record::EndWords words_of_end = record::words_of(by);
    failure.code = words_of_end.code;
    failure.message = words_of_end.message;
    return failure;
}

void RankLosses::go_on(const record::RanksLost& question) {
    // If one of those who may go on dies before they do, they ask again about all that are lost.
    std::vector<int> lost;
    std::copy_if(question.lost.begin(), question.lost.end(), std::back_inserter(lost),
                 [&](int task) { return !lost_.contains(task); });
    if (lost.empty()) return open_since_.reset();
    record::Loss loss{.time = base::now(),
                      .ranks = lost,
                      .ranks_left = static_cast<int>(question.here.size()),
                      .failure = failure_of(lost)};
    const std::string line =
        fmt::format("{} rank{} without rank{} {}: {}", question.here.size(),
                    question.here.size() == 1 ? " goes on" : "s go on", lost.size() == 1 ? "" : "s",
                    fmt::join(lost, ", "), sentence_of(Ending{.failure = loss.failure}));
    context_.log.all_nodes(line);
    std::printf("batchai: %s\n", line.c_str());
    std::fflush(stdout);
    context_.lost(std::move(loss));
    std::set<std::string> short_of_ranks;
    for (const int task : lost)
        short_of_ranks.insert(node_of(task));
    for (const std::string& node : newly_dead_)
        context_.node_failed(node, record::NodeFaultKind::lost);
    if (context_.host_updates != nullptr)
        context_.host_updates->ranks_went_on({short_of_ranks.begin(), short_of_ranks.end()},
                                             {newly_dead_.begin(), newly_dead_.end()});
    lost_.insert(lost.begin(), lost.end());
    dead_.merge(newly_dead_);
    newly_dead_.clear();
    silences_.clear();
    // What has been said since is read anew.
    open_messages_ = without_lost(open_messages_);
    ends_ = bad_ends(open_messages_);
    open_since_.reset();
}

void RankLosses::end(const std::string& why) {
    must_end_ = true;
    if (!why.empty())
        context_.log.master("the ranks that are left do not go on in their processes: " + why);
}

}  // namespace batchai::run
