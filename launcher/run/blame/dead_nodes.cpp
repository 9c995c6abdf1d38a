// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/dead_nodes.hpp"

#include <algorithm>
#include <utility>

#include "run/blame/slurm_words.hpp"

namespace batchai::run {

void DeadNodes::suspect(Clock::time_point now) {
    if (!std::exchange(has_begun_, true)) next_ = now;
}

bool DeadNodes::is_due(std::string_view messages, Clock::time_point now) {
    if (!has_begun_) {
        if (messages.size() == read_) return false;
        read_ = messages.size();
        if (bad_ends(messages).empty()) return false;
        has_begun_ = true;
        next_ = now + patience;
    }
    if (now < next_) return false;
    next_ = now + between_rounds;
    return true;
}

std::vector<std::string> DeadNodes::next_nodes() {
    std::vector<std::string> chosen;
    for (const auto& [node, rounds] : silent_)
        chosen.push_back(node);
    for (std::size_t i = 0; i < nodes_.size() && chosen.size() < most_at_once; ++i) {
        const std::string& node = nodes_[at_++ % nodes_.size()];
        if (!silent_.contains(node)) chosen.push_back(node);
    }
    return chosen;
}

void DeadNodes::look() {
    if (daemons_.empty()) {
        // A controller that does not answer is asked again in the next round.
        auto daemons = ask_(nodes_);
        if (!daemons) return;
        daemons_ = std::move(*daemons);
        std::erase_if(nodes_, [&](const std::string& node) { return !daemons_.contains(node); });
    }
    const std::vector<std::string> chosen = next_nodes();
    std::vector<base::Endpoint> endpoints;
    for (const std::string& node : chosen)
        endpoints.push_back(daemons_[node]);
    const std::vector<bool> listens = base::listens_at(endpoints, longest_answer);
    if (std::find(listens.begin(), listens.end(), true) == listens.end()) return;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (listens[i])
            silent_.erase(chosen[i]);
        else if (++silent_[chosen[i]] == rounds_without_answer)
            dead_.push_back(chosen[i]);
    }
}

const std::vector<std::string>& DeadNodes::poll(std::string_view messages, Clock::time_point now) {
    if (dead_.empty() && is_due(messages, now)) look();
    return dead_;
}

}  // namespace batchai::run
