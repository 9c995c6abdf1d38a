// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.hpp"
#include "run/blame/node_daemons.hpp"
#include "run/blame/silent_nodes.hpp"

namespace batchai::run {

// Notices that nodes of a step are dead. Slurm waits for SlurmdTimeout, usually five minutes, until
// it says so, and srun waits for Slurm. This looks only once a task has ended badly and srun does
// not end, while the tasks stand still, or at a node that does not answer pings any more: a host
// without power breaks no connection, so its peers may wait for long. A node is dead if nothing
// answers where its slurmd should listen, several times in a row. A node that refuses lives; its
// slurmd may be starting again, so it has longer. As long as no node at all answers, nothing is
// known.
class DeadNodes {
  public:
    using Clock = std::chrono::steady_clock;

    // After a bad end, for srun to end by itself.
    static constexpr std::chrono::milliseconds patience{1500};
    static constexpr std::chrono::milliseconds between_rounds{750};
    static constexpr int least_rounds = 3;
    static constexpr std::chrono::seconds longest_refusal{5};
    // Each address is asked by a socket of its own.
    static constexpr std::size_t most_at_once = 128;
    // Ranks that have begun to run are worth a question to Slurm for the nodes' addresses.
    static constexpr std::chrono::seconds before_pings{3};
    // Where nothing but missing pings tells of a loss. A network may fail for some seconds.
    static constexpr std::chrono::seconds least_silence_of_suspects{4};

    // The step runs on `nodes`, and `spares` may take their place. `own` is the node of this
    // process, which lives; empty: it is on none of them.
    DeadNodes(std::vector<std::string> nodes, const std::vector<std::string>& spares,
              std::string own, NodeDaemons::Ask ask, SilentNodes::Ping ping = {});

    // Must be called some times a second while the step runs. `messages` are what srun has said so
    // far. Returns the dead nodes, those of the step first, once there is one of them. May take as
    // long as NodeDaemons::longest_answer, and the first look as long as Slurm and the name servers
    // take.
    [[nodiscard]] const std::vector<std::string>& poll(std::string_view messages, bool stand_still,
                                                       Clock::time_point now = Clock::now());

    // Returns those of these nodes of the step that do not answer, though another node does. May
    // take as long as poll() may.
    [[nodiscard]] std::vector<std::string> silent_now(const std::vector<std::string>& nodes,
                                                      Clock::time_point now = Clock::now());
    // The step goes on without these nodes of it, and without the tasks of which srun has said that
    // they have ended badly.
    void go_on_without(const std::set<std::string>& nodes);

    // Must be called once srun has ended, which may give up before it is known that a node is dead.
    // Looks until each node has answered, or has been silent for long enough. Returns the dead
    // nodes as poll() does. `goes_on` is asked in between.
    [[nodiscard]] const std::vector<std::string>& wait(std::string_view messages,
                                                       const std::function<bool()>& goes_on);

  private:
    struct Silence {
        int rounds = 0;
        bool refuses = false;  // it has done so in one of them
        Clock::time_point since{};
    };

    // Returns false until it is time to look.
    [[nodiscard]] bool is_due(std::string_view messages, bool stand_still, Clock::time_point now);
    // Whether it is known where all nodes of which anything can be known are to be asked.
    [[nodiscard]] bool can_ask(Clock::time_point now);
    // The nodes that have not answered last time, and the next ones of the others.
    [[nodiscard]] std::vector<std::string> next_nodes();
    void look(Clock::time_point now);
    // Pings the nodes, and asks those that do not answer.
    void look_at_suspects(Clock::time_point now);
    void note(const std::string& node, base::Knock answer, Clock::time_point now);
    void bury(const std::string& node);

    std::vector<std::string> step_nodes_;
    std::vector<std::string> nodes_;  // that are asked
    std::string own_;
    NodeDaemons daemons_;
    bool can_ask_ = false;
    std::optional<Clock::time_point> first_ping_;
    SilentNodes silent_to_pings_;
    std::map<std::string, Silence> suspected_;
    Clock::time_point next_look_at_suspects_{};
    std::size_t read_ = 0;  // bytes of the messages
    bool has_bad_end_ = false;
    bool looks_ = false;
    Clock::time_point next_{};
    std::size_t at_ = 0;     // the node that is asked next
    std::size_t asked_ = 0;  // so many times until now
    std::map<std::string, Silence> silent_;
    std::vector<std::string> dead_;
    bool is_lost_ = false;  // one of the step's nodes is dead
};

}  // namespace batchai::run
