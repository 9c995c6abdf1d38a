// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "channel.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/round.hpp"
#include "shared.hpp"

namespace schedules {

using Event = std::function<void()>;

// A rank as a member of a process set: it plays what the engine does with the state machines, with
// channels in place of communicators.
class Node {
  public:
    using RunChange = std::function<void(const mpi_bridge::Descriptor& change)>;

    // `run_change` is called when all members run the change of process sets they have agreed on.
    Node(int rank, std::shared_ptr<ProcessSet> set, mpi_bridge::Member::Options options,
         Shared& shared, RunChange run_change);

    [[nodiscard]] mpi_bridge::Member& member() { return member_; }
    [[nodiscard]] int first_member() const { return set_->members.front(); }

    // Adds what can happen next.
    void add_events(std::vector<Event>& events);
    // Ends all that the node does with that failure.
    void fail(const mpi_bridge::Failure& failure);
    // Returns where the node is, for a message; nothing once it is over.
    [[nodiscard]] std::string where() const;

  private:
    void start_head();
    void end_head();
    void stop_plan();
    void step_done(Channel& channel);
    void advance(mpi_bridge::Outcome<mpi_bridge::Step> next);
    void take(mpi_bridge::Step step);
    // Returns the call that the step makes.
    [[nodiscard]] Call call_of(const mpi_bridge::Step& step);
    [[nodiscard]] Call call_of_group(const mpi_bridge::RunGroup& run);
    [[nodiscard]] Channel& channel_of(const mpi_bridge::Step& step);
    void complete(Channel& channel);
    void note_plan_at_change(const mpi_bridge::Descriptor& change);
    void enqueue(const mpi_bridge::Descriptor& what, std::string label);

    int rank_;
    std::shared_ptr<ProcessSet> set_;
    std::size_t own_;
    mpi_bridge::Member member_;
    mpi_bridge::Round round_;
    Shared& shared_;
    RunChange run_change_;
    std::optional<mpi_bridge::Step> step_;  // of the round, in which the negotiation is
    std::optional<mpi_bridge::Member::Head> head_;
    bool over_ = false;
};

}  // namespace schedules
