// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/dead_nodes.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "run/blame/slurm_words.hpp"

namespace batchai::run {

namespace {

std::vector<std::string> both(std::vector<std::string> nodes,
                              const std::vector<std::string>& spares) {
    nodes.insert(nodes.end(), spares.begin(), spares.end());
    return nodes;
}

}  // namespace

DeadNodes::DeadNodes(std::vector<std::string> nodes, const std::vector<std::string>& spares,
                     std::string own, NodeDaemons::Ask ask, SilentNodes::Ping ping)
    : step_nodes_(std::move(nodes)),
      nodes_(both(step_nodes_, spares)),
      own_(std::move(own)),
      daemons_(nodes_, std::move(ask)),
      silent_to_pings_(own_, std::move(ping)) {}

bool DeadNodes::is_due(std::string_view messages, bool stand_still, Clock::time_point now) {
    if (!has_bad_end_ && messages.size() != read_) {
        read_ = messages.size();
        has_bad_end_ = !bad_ends(messages).empty();
    }
    if (!has_bad_end_ && !stand_still) {
        looks_ = false;
        silent_.clear();
        return false;
    }
    if (!std::exchange(looks_, true)) next_ = stand_still ? now : now + patience;
    if (now < next_) return false;
    next_ = now + between_rounds;
    return true;
}

bool DeadNodes::can_ask(Clock::time_point now) {
    if (can_ask_) return true;
    can_ask_ = daemons_.known(now);
    if (!can_ask_)
        next_ = daemons_.next_question();
    else
        std::erase_if(nodes_, [&](const std::string& node) { return !daemons_.resolves(node); });
    return can_ask_;
}

std::vector<std::string> DeadNodes::next_nodes() {
    std::vector<std::string> chosen;
    for (const auto& [node, silence] : silent_)
        chosen.push_back(node);
    for (std::size_t i = 0; i < nodes_.size() && chosen.size() < most_at_once; ++i) {
        const std::string& node = nodes_[at_++ % nodes_.size()];
        if (!silent_.contains(node)) chosen.push_back(node);
    }
    return chosen;
}

void DeadNodes::note(const std::string& node, base::Knock answer, Clock::time_point now) {
    if (answer == base::Knock::open || answer == base::Knock::unknown || node == own_) {
        silent_.erase(node);
        return;
    }
    Silence& silence = silent_[node];
    if (silence.rounds++ == 0) silence.since = now;
    silence.refuses = silence.refuses || answer == base::Knock::refused;
    if (silence.rounds < least_rounds) return;
    if (silence.refuses && now - silence.since < longest_refusal) return;
    silent_.erase(node);
    bury(node);
}

void DeadNodes::bury(const std::string& node) {
    const bool is_of_step =
        std::find(step_nodes_.begin(), step_nodes_.end(), node) != step_nodes_.end();
    dead_.insert(is_of_step ? dead_.begin() : dead_.end(), node);
    is_lost_ = is_lost_ || is_of_step;
    silent_to_pings_.acquit(node);
    std::erase(nodes_, node);
}

void DeadNodes::look(Clock::time_point now) {
    const std::vector<std::string> chosen = next_nodes();
    asked_ += chosen.size();
    const std::vector<base::Knock> answers = daemons_.knock(chosen);
    if (std::find(answers.begin(), answers.end(), base::Knock::open) == answers.end()) return;
    for (std::size_t i = 0; i < chosen.size(); ++i)
        note(chosen[i], answers[i], now);
}

void DeadNodes::look_at_suspects(Clock::time_point now) {
    if (!silent_to_pings_.pings()) return;
    if (!first_ping_) first_ping_ = now + before_pings;
    if (now < *first_ping_ || !daemons_.known(now)) return;
    silent_to_pings_.know(daemons_.told());
    silent_to_pings_.poll(now);
    std::erase_if(suspected_, [&](const auto& each) {
        return !silent_to_pings_.suspects().contains(each.first);
    });
    if (silent_to_pings_.suspects().empty() || now < next_look_at_suspects_) return;
    next_look_at_suspects_ = now + between_rounds;
    std::vector<std::string> chosen;
    for (const std::string& node : silent_to_pings_.suspects()) {
        if (chosen.size() < most_at_once) chosen.push_back(node);
    }
    const std::vector<base::Knock> answers = daemons_.knock(chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (answers[i] == base::Knock::unknown) continue;
        if (answers[i] != base::Knock::silent) {
            silent_to_pings_.acquit(chosen[i]);
            continue;
        }
        Silence& silence = suspected_[chosen[i]];
        if (silence.rounds++ == 0) silence.since = now;
        if (silence.rounds >= least_rounds && now - silence.since >= least_silence_of_suspects)
            bury(chosen[i]);
    }
}

const std::vector<std::string>& DeadNodes::poll(std::string_view messages, bool stand_still,
                                                Clock::time_point now) {
    static const std::vector<std::string> none;
    if (!is_lost_ && is_due(messages, stand_still, now) && can_ask(now)) look(now);
    if (!is_lost_ && !looks_) look_at_suspects(now);
    return is_lost_ ? dead_ : none;
}

std::vector<std::string> DeadNodes::silent_now(const std::vector<std::string>& nodes,
                                               Clock::time_point now) {
    if (!can_ask(now)) return {};
    std::vector<std::string> chosen = nodes;
    for (const std::string& node : nodes_) {
        if (chosen.size() >= most_at_once) break;
        if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) chosen.push_back(node);
    }
    const std::vector<base::Knock> answers = daemons_.knock(chosen);
    if (std::find(answers.begin(), answers.end(), base::Knock::open) == answers.end()) return {};
    std::vector<std::string> silent;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        if (answers[i] == base::Knock::silent && nodes[i] != own_) silent.push_back(nodes[i]);
    }
    return silent;
}

void DeadNodes::go_on_without(const std::set<std::string>& nodes) {
    const auto is_one = [&](const std::string& node) { return nodes.contains(node); };
    std::erase_if(step_nodes_, is_one);
    std::erase_if(nodes_, is_one);
    std::erase_if(dead_, is_one);
    for (const std::string& node : nodes)
        silent_to_pings_.acquit(node);
    is_lost_ = has_bad_end_ = looks_ = false;
    silent_.clear();
}

const std::vector<std::string>& DeadNodes::wait(std::string_view messages,
                                                const std::function<bool()>& goes_on) {
    constexpr std::chrono::milliseconds between_questions{100};
    if (!bad_ends(messages).empty()) {
        has_bad_end_ = looks_ = true;
        next_ = Clock::now();
        const auto end = next_ + longest_refusal + least_rounds * between_rounds;
        const std::size_t asked_before = asked_;
        do {
            if (!poll(messages, false).empty() || !can_ask_) break;
            if (silent_.empty() && asked_ - asked_before >= nodes_.size()) break;
            std::this_thread::sleep_for(between_questions);
        } while (Clock::now() < end && goes_on());
    }
    return poll(messages, false);
}

}  // namespace batchai::run
