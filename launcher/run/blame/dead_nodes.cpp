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
      ping_(std::move(ping)) {
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

bool DeadNodes::knows_daemons(Clock::time_point now) {
    if (!daemons_.empty()) return true;
    const auto daemons = ask_(nodes_);
    if (!daemons) {
        next_ = now + std::exchange(pause_, std::min(2 * pause_, longest_pause));
        return false;
    }
    for (const auto& [node, endpoint] : *daemons)
        daemons_[node] = base::resolved(endpoint);
    // Of the others nothing can be known.
    std::erase_if(nodes_, [&](const std::string& node) { return daemons_[node].empty(); });
    return true;
}

bool DeadNodes::suspects(Clock::time_point now) {
    if (!ping_) return false;
    if (!next_ping_) next_ping_ = now + before_pings;
    if (now < *next_ping_) return silent_to_pings_.is_any();
    if (!knows_daemons(now)) {
        next_ping_ = next_;
        return false;
    }
    std::vector<std::string> addresses;
    std::map<std::string, std::string> node_of;
    for (const std::string& node : nodes_) {
        for (const base::Endpoint& endpoint : daemons_[node]) {
            addresses.push_back(endpoint.address);
            node_of[endpoint.address] = node;
        }
    }
    const std::chrono::seconds longer(addresses.size() / most_pings_a_second);
    next_ping_ = now + std::max(between_pings, longer);
    std::set<std::string> answered;
    for (const std::string& address : ping_(addresses)) {
        if (const auto found = node_of.find(address); found != node_of.end())
            answered.insert(found->second);
    }
    silent_to_pings_.round(answered);
    if (!silent_to_pings_.is_any()) asked_before_ = asked_;
    return silent_to_pings_.is_any();
}

void DeadNodes::acquit() {
    if (silent_.empty() && asked_ - asked_before_ >= nodes_.size()) silent_to_pings_.clear();
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
    const bool is_of_step =
        std::find(step_nodes_.begin(), step_nodes_.end(), node) != step_nodes_.end();
    dead_.insert(is_of_step ? dead_.begin() : dead_.end(), node);
    is_lost_ = is_lost_ || is_of_step;
    silent_.erase(node);
    std::erase(nodes_, node);
}

void DeadNodes::look(Clock::time_point now) {
    const std::vector<std::string> chosen = next_nodes();
    asked_ += chosen.size();
    std::vector<base::Endpoint> endpoints;
    for (const std::string& node : chosen)
        endpoints.insert(endpoints.end(), daemons_[node].begin(), daemons_[node].end());
    const std::vector<base::Knock> answers = base::knock(endpoints, longest_answer);
    if (std::find(answers.begin(), answers.end(), base::Knock::open) == answers.end()) return;
    auto answer = answers.begin();
    for (const std::string& node : chosen) {
        // The most hopeful of the answers from its addresses.
        const auto end = answer + static_cast<std::ptrdiff_t>(daemons_[node].size());
        note(node, *std::min_element(answer, end), now);
        answer = end;
    }
}

const std::vector<std::string>& DeadNodes::poll(std::string_view messages, bool stand_still,
                                                Clock::time_point now) {
    static const std::vector<std::string> none;
    if (!is_lost_ && is_due(messages, suspects(now) || stand_still, now) && knows_daemons(now)) {
        look(now);
        acquit();
    }
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
            if (!poll(messages, false).empty() || daemons_.empty()) break;
            if (silent_.empty() && asked_ - asked_before >= nodes_.size()) break;
            std::this_thread::sleep_for(between_questions);
        } while (Clock::now() < end && goes_on());
    }
    return poll(messages, false);
}

}  // namespace batchai::run
