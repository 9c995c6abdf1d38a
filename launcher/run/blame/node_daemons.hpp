// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/network.hpp"

namespace batchai::run {

// Where the slurmd of each node of a job listens, as Slurm says, and what answers there.
class NodeDaemons {
  public:
    using Clock = std::chrono::steady_clock;
    using Endpoints = std::map<std::string, base::Endpoint>;
    // Asks Slurm. Must answer within some seconds.
    using Ask = std::function<base::Result<Endpoints>(const std::vector<std::string>& nodes)>;

    // How long an answer of a slurmd may take.
    static constexpr std::chrono::milliseconds longest_answer{500};
    // A controller that does not answer is asked again after this time, and then after twice as
    // long each time.
    static constexpr std::chrono::seconds first_pause{2};
    static constexpr std::chrono::seconds longest_pause{60};

    NodeDaemons(std::vector<std::string> nodes, Ask ask);

    // Whether Slurm has said it. Asks Slurm if it has not, and it is time.
    [[nodiscard]] bool known(Clock::time_point now);
    // When known() asks next.
    [[nodiscard]] Clock::time_point next_question() const { return next_question_; }

    // The others may be called once known() has returned true.
    [[nodiscard]] const Endpoints& told() const { return *told_; }
    // Whether the node has an address. May wait for a name server, once for each node.
    [[nodiscard]] bool resolves(const std::string& node) { return !addresses_of(node).empty(); }
    // Returns the most hopeful of the answers from the addresses of each node; `unknown` for one
    // without an address.
    [[nodiscard]] std::vector<base::Knock> knock(const std::vector<std::string>& nodes);

  private:
    [[nodiscard]] const std::vector<base::Endpoint>& addresses_of(const std::string& node);

    std::vector<std::string> nodes_;
    Ask ask_;
    Clock::time_point next_question_{};
    std::chrono::seconds pause_ = first_pause;
    std::optional<Endpoints> told_;
    std::map<std::string, std::vector<base::Endpoint>> addresses_;  // as far as they were looked up
};

}  // namespace batchai::run
