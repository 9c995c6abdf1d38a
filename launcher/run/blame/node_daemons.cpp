// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/node_daemons.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace batchai::run {

NodeDaemons::NodeDaemons(std::vector<std::string> nodes, Ask ask)
    : nodes_(std::move(nodes)), ask_(std::move(ask)) {}

bool NodeDaemons::known(Clock::time_point now) {
    if (told_ || now < next_question_) return told_.has_value();
    if (auto answer = ask_(nodes_))
        told_ = std::move(*answer);
    else
        next_question_ = now + std::exchange(pause_, std::min(2 * pause_, longest_pause));
    return told_.has_value();
}

const std::vector<base::Endpoint>& NodeDaemons::addresses_of(const std::string& node) {
    const auto known = addresses_.find(node);
    if (known != addresses_.end()) return known->second;
    const auto told = told_->find(node);
    return addresses_[node] =
               told == told_->end() ? std::vector<base::Endpoint>() : base::resolved(told->second);
}

std::vector<base::Knock> NodeDaemons::knock(const std::vector<std::string>& nodes) {
    std::vector<base::Endpoint> endpoints;
    for (const std::string& node : nodes) {
        const auto& addresses = addresses_of(node);
        endpoints.insert(endpoints.end(), addresses.begin(), addresses.end());
    }
    const std::vector<base::Knock> answers = base::knock(endpoints, longest_answer);
    std::vector<base::Knock> out;
    auto answer = answers.begin();
    for (const std::string& node : nodes) {
        const auto end = answer + static_cast<std::ptrdiff_t>(addresses_of(node).size());
        out.push_back(answer == end ? base::Knock::unknown : *std::min_element(answer, end));
        answer = end;
    }
    return out;
}

}  // namespace batchai::run
