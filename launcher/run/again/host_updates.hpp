// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "base/error.hpp"
#include "run/again/hosts.hpp"

namespace batchai::run {

struct Context;

// Looks, while the ranks of an elastic job run, whether they should run on other nodes, and
// announces that to them. They end after their next commit, and start again. Each start of the
// ranks is told at most once.
class HostUpdates {
  public:
    using Ask = std::function<base::Result<SlurmsView>()>;
    using Clock = std::chrono::steady_clock;

    // Between two questions to Slurm. A node must be back for two of them.
    static constexpr std::chrono::seconds between_questions{20};
    // How often the ranks are told that the same node is back. If it is lost again and again, the
    // job does better without it.
    static constexpr int most_returns = 3;

    // The longest time between two questions to a controller that is silent or slow.
    static constexpr std::chrono::seconds longest_between_questions{320};

    // Drops a request that an earlier run in the same allocation has left. `ask` must answer within
    // a few seconds or give up.
    // `hosts`, which others change only between two starts of the ranks, must outlive this object.
    HostUpdates(const Context& context, Hosts& hosts, Ask ask);

    // Must be called before the ranks of each start.
    void begin(Clock::time_point now = Clock::now());
    // Cheap, except when it asks Slurm.
    void poll(Clock::time_point now = Clock::now());
    // Ranks on `nodes` are lost, and the others have gone on in their processes. If these nodes are
    // usable for two questions, the ranks are told that they are back. Those that are `dead` are
    // not used again.
    void ranks_went_on(const Nodes& nodes, const Nodes& dead);
    // Returns whether the ranks of this start have ended after a commit because of what they were
    // told. Meaningful once their step has ended.
    [[nodiscard]] bool ranks_have_left() const;

    // Returns the reason that the ranks of this start were told.
    [[nodiscard]] const std::string& told() const { return told_; }

  private:
    void take_request(Clock::time_point now);
    [[nodiscard]] bool ask_slurm();  // returns whether it answers
    void check_request(const SlurmsView& view);
    void tell(const Difference& difference);
    // Warns of a fault that may come again each time, once until another fault has come.
    void complain(const std::string& line);

    const Context& context_;
    Ask ask_;
    Hosts& hosts_;
    std::string told_;             // empty: nothing yet
    Clock::time_point next_look_;  // for a request of the user
    Clock::time_point next_question_;
    std::chrono::seconds interval_ = between_questions;
    std::string complaint_;
    Nodes returned_;                      // nodes that the last answer had and the place has not
    std::map<std::string, int> returns_;  // by node
};

}  // namespace batchai::run
