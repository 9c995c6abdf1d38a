// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/dead_nodes.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "run/blame/slurm_words.hpp"

namespace batchai::run {

DeadNodes::DeadNodes(std::vector<std::string> nodes, const std::vector<std::string>& spares,
                     std::string own, Ask ask, Ping ping)
    : step_nodes_(std::move(nodes)),
      nodes_(step_nodes_),
      own_(std::move(own)),
      ask_(std::move(ask)),
      silent_to_pings_(own_, std::move(ping)) {
    nodes_.insert(nodes_.end(), spares.begin(), spares.end());
}

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

bool DeadNodes::is_told(Clock::time_point now) {
    if (told_) return true;
    const auto daemons = ask_(nodes_);
    if (!daemons) {
        next_ask_ = now + std::exchange(pause_, std::min(2 * pause_, longest_pause));
        return false;
    }
    told_ = *daemons;
    silent_to_pings_.know(*daemons);
    return true;
}

const std::vector<base::Endpoint>& DeadNodes::endpoints_of(const std::string& node) {
    const auto known = daemons_.find(node);
    if (known != daemons_.end()) return known->second;
    const auto told = told_->find(node);
    return daemons_[node] =
               told == told_->end() ? std::vector<base::Endpoint>() : base::resolved(told->second);
}

bool DeadNodes::knows_daemons(Clock::time_point now) {
    if (std::exchange(knows_daemons_, knows_daemons_ || is_told(now))) return true;
    if (!knows_daemons_) {
        next_ = *next_ask_;
        return false;
    }
    // Of the others nothing can be known.
    std::erase_if(nodes_, [&](const std::string& node) { return endpoints_of(node).empty(); });
    return true;
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

std::vector<base::Knock> DeadNodes::knock(const std::vector<std::string>& nodes) {
    std::vector<base::Endpoint> endpoints;
    for (const std::string& node : nodes) {
        const auto& own = endpoints_of(node);
        endpoints.insert(endpoints.end(), own.begin(), own.end());
    }
    const std::vector<base::Knock> answers = base::knock(endpoints, longest_answer);
    std::vector<base::Knock> out;
    auto answer = answers.begin();
    for (const std::string& node : nodes) {
        // The most hopeful of the answers from its addresses.
        const auto end = answer + static_cast<std::ptrdiff_t>(endpoints_of(node).size());
        out.push_back(answer == end ? base::Knock::unknown : *std::min_element(answer, end));
        answer = end;
    }
    return out;
}

void DeadNodes::look(Clock::time_point now) {
    const std::vector<std::string> chosen = next_nodes();
    asked_ += chosen.size();
    const std::vector<base::Knock> answers = knock(chosen);
    if (std::find(answers.begin(), answers.end(), base::Knock::open) == answers.end()) return;
    for (std::size_t i = 0; i < chosen.size(); ++i)
        note(chosen[i], answers[i], now);
}

void DeadNodes::look_at_suspects(Clock::time_point now) {
    if (!silent_to_pings_.pings()) return;
    if (!next_ask_) next_ask_ = now + before_pings;
    if (!told_ && (now < *next_ask_ || !is_told(now))) return;
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
    const std::vector<base::Knock> answers = knock(chosen);
    for (std::size_t i = 0; i < chosen.size(); ++i) {
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
    if (!is_lost_ && is_due(messages, stand_still, now) && knows_daemons(now)) look(now);
    if (!is_lost_ && !looks_) look_at_suspects(now);
    return is_lost_ ? dead_ : none;
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
            if (!poll(messages, false).empty() || !knows_daemons_) break;
            if (silent_.empty() && asked_ - asked_before >= nodes_.size()) break;
            std::this_thread::sleep_for(between_questions);
        } while (Clock::now() < end && goes_on());
    }
    return poll(messages, false);
}

}  // namespace batchai::run
