// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/network.hpp"

namespace batchai::run {

// Which nodes have answered pings before, and do no longer. That is only a suspicion: packets get
// lost, and networks fail for some seconds.
class SilentNodes {
  public:
    using Clock = std::chrono::steady_clock;
    // Returns which addresses have answered since the last call, and asks these.
    using Ping = std::function<std::set<std::string>(const std::vector<std::string>& addresses)>;

    static constexpr std::chrono::seconds between_rounds{1};
    // In a row.
    static constexpr int least_misses = 2;
    // The answers of more than this would not find room in the socket at once.
    static constexpr std::size_t most_at_once = 64;
    // A name server may have to be asked for each.
    static constexpr std::size_t most_resolved_at_once = 8;

    // `own` is the node of this process. Without `ping` nobody is ever suspected.
    SilentNodes(std::string own, Ping ping) : own_(std::move(own)), ping_(std::move(ping)) {}

    [[nodiscard]] bool pings() const { return static_cast<bool>(ping_); }
    // Where a daemon of each node listens. Must be called before poll(); only the first call
    // counts.
    void know(const std::map<std::string, base::Endpoint>& daemons);

    // Must be called some times a second. Does not wait, but perhaps for a name server.
    void poll(Clock::time_point now);
    // None if no other node answers either, unless there is only one other node: it may be the
    // network of this host that has failed.
    [[nodiscard]] const std::set<std::string>& suspects() const { return suspects_; }
    // The node has shown in another way that it lives. It is not suspected again.
    void acquit(const std::string& node);

  private:
    void resolve_some();
    void end_round();

    std::string own_;
    Ping ping_;
    bool knows_ = false;
    std::vector<std::pair<std::string, base::Endpoint>> unresolved_;
    std::vector<std::string> addresses_;
    std::map<std::string, std::string> node_of_;  // by address
    std::size_t nodes_ = 0;                       // but for the own one
    std::size_t at_ = 0;                          // the address that is asked next
    std::optional<Clock::time_point> next_round_;
    std::set<std::string> answered_;     // in this round
    std::map<std::string, int> misses_;  // in a row, of those that have answered once
    std::set<std::string> acquitted_;
    std::set<std::string> suspects_;
};

}  // namespace batchai::run
