// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/silent_nodes.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace batchai::run {

void SilentNodes::know(const std::map<std::string, base::Endpoint>& daemons) {
    if (std::exchange(knows_, true)) return;
    std::copy_if(daemons.begin(), daemons.end(), std::back_inserter(unresolved_),
                 [&](const auto& each) { return each.first != own_; });
    nodes_ = unresolved_.size();
}

void SilentNodes::resolve_some() {
    for (std::size_t count = 0; count < most_resolved_at_once && !unresolved_.empty(); ++count) {
        const auto [node, daemon] = std::move(unresolved_.back());
        unresolved_.pop_back();
        for (base::Endpoint& endpoint : base::resolved(daemon)) {
            node_of_[endpoint.address] = node;
            addresses_.push_back(std::move(endpoint.address));
        }
    }
}

void SilentNodes::end_round() {
    suspects_.clear();
    for (const std::string& node : answered_)
        misses_[node] = -1;
    for (auto& [node, misses] : misses_) {
        if (++misses >= least_misses && !acquitted_.contains(node)) suspects_.insert(node);
    }
    if (answered_.empty() && nodes_ > 1) suspects_.clear();
    answered_.clear();
}

void SilentNodes::poll(Clock::time_point now) {
    if (!ping_) return;
    resolve_some();
    if (!next_round_) next_round_ = now + between_rounds;
    const std::size_t end = std::min(at_ + most_at_once, addresses_.size());
    const std::vector<std::string> next(addresses_.begin() + static_cast<std::ptrdiff_t>(at_),
                                        addresses_.begin() + static_cast<std::ptrdiff_t>(end));
    at_ = end;
    for (const std::string& address : ping_(next)) {
        if (const auto found = node_of_.find(address); found != node_of_.end())
            answered_.insert(found->second);
    }
    if (now < *next_round_ || at_ < addresses_.size()) return;
    end_round();
    at_ = 0;
    next_round_ = now + between_rounds;
}

void SilentNodes::acquit(const std::string& node) {
    acquitted_.insert(node);
    suspects_.erase(node);
}

}  // namespace batchai::run
