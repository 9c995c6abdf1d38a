// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/network.hpp"

namespace batchai::run {

// Notices that nodes of a step are dead. Slurm waits for SlurmdTimeout, usually five minutes, until
// it says so, and srun waits for Slurm. This looks only once a task has ended badly and srun does
// not end, or the tasks stand still: a node is dead if nobody listens where its slurmd should,
// several times in a row. As long as no node at all answers, nothing is known.
class DeadNodes {
  public:
    using Clock = std::chrono::steady_clock;
    using Daemons = std::map<std::string, base::Endpoint>;
    // Asks Slurm where the slurmd of each node listens. Must answer within some seconds.
    using Ask = std::function<base::Result<Daemons>(const std::vector<std::string>& nodes)>;

    // After a bad end, for srun to end by itself.
    static constexpr std::chrono::milliseconds patience{1500};
    static constexpr std::chrono::milliseconds between_rounds{750};
    // How long an answer may take.
    static constexpr std::chrono::milliseconds longest_answer{500};
    static constexpr int rounds_without_answer = 3;
    // Each node is asked by a socket of its own.
    static constexpr std::size_t most_at_once = 128;

    DeadNodes(std::vector<std::string> nodes, Ask ask)
        : nodes_(std::move(nodes)), ask_(std::move(ask)) {}

    // Looks from now on, although no task has ended.
    void suspect(Clock::time_point now = Clock::now());
    // Must be called some times a second while the step runs. `messages` are what srun has said so
    // far. Returns the dead nodes, once there are any. May take as long as `longest_answer`.
    [[nodiscard]] const std::vector<std::string>& poll(std::string_view messages,
                                                       Clock::time_point now = Clock::now());

  private:
    // Returns false until it is time to look.
    [[nodiscard]] bool is_due(std::string_view messages, Clock::time_point now);
    // The nodes that have not answered last time, and the next ones of the others.
    [[nodiscard]] std::vector<std::string> next_nodes();
    void look();

    std::vector<std::string> nodes_;
    Ask ask_;
    std::size_t read_ = 0;  // bytes of the messages
    Clock::time_point next_{};
    bool has_begun_ = false;
    Daemons daemons_;
    std::size_t at_ = 0;                 // the node that is asked next
    std::map<std::string, int> silent_;  // rounds without an answer
    std::vector<std::string> dead_;
};

}  // namespace batchai::run
