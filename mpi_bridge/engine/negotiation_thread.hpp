// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "collectives/communicator.hpp"
#include "engine/device_work.hpp"
#include "engine/execute/host_execution.hpp"
#include "engine/execute/workspace.hpp"
#include "engine/plan_lane.hpp"
#include "engine/process_set_state.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {

// The thread that takes part in a process set's rounds of negotiation, and runs what they find
// submitted on all members: round, run, round, run. All members do the same sequence, so none waits
// for one that waits for it.
//
// It also looks after what does not happen. A rank that has something waiting for a while begins a
// round although it has nothing to tell: this is the heartbeat, because it takes a message to
// notice that a member is gone. And a rank that has something waiting for long asks, in a round,
// what each member has submitted; then every rank that has such operations reports them.
class NegotiationThread {
  public:
    NegotiationThread(ProcessSetState& state, PlanLane& lane, DeviceWork& devices);
    ~NegotiationThread();  // the end of the thread comes first
    NegotiationThread(const NegotiationThread&) = delete;
    NegotiationThread& operator=(const NegotiationThread&) = delete;

    // Starts the thread, unless it runs or the process set has failed.
    void start();

    // With the lock of the state held.
    [[nodiscard]] bool ended() const { return ended_; }
    // Makes calls that are under way fail.
    void abandon();

  private:
    void work();
    void rounds();
    [[nodiscard]] Done open(std::unique_ptr<Communicator>& communicator, Channel::Lane lane);
    [[nodiscard]] bool has_news();

    // A round, and its steps.
    [[nodiscard]] Done round();
    [[nodiscard]] Outcome<Step> carry_out(ProcessSetState::Lock& lock, Step& step);
    [[nodiscard]] Outcome<Step> reduce(ProcessSetState::Lock& lock, Reduce& step);
    [[nodiscard]] Outcome<Step> gather(ProcessSetState::Lock& lock, const Gather& step);
    [[nodiscard]] Outcome<Step> stop_plan(ProcessSetState::Lock& lock, const StopPlan& step);
    [[nodiscard]] Outcome<Step> run(ProcessSetState::Lock& lock, const RunGroup& step);
    [[nodiscard]] Done run_group(const RunGroup& step, const Descriptor& what,
                                 const std::string& label, std::uint64_t serial,
                                 std::span<Entry* const> entries);

    // What waits for whom.
    [[nodiscard]] Deadline next_look();
    [[nodiscard]] bool look_for_stalls();
    [[nodiscard]] Seconds oldest_age(Clock::time_point now) const;
    [[nodiscard]] std::string pending_text(Clock::time_point now, Seconds at_least) const;

    ProcessSetState& state_;
    PlanLane& lane_;
    DeviceWork& devices_;
    std::unique_ptr<Communicator> control_;
    std::unique_ptr<Communicator> negotiated_;
    Workspace workspace_;
    StallWatch stall_watch_;
    Clock::time_point latest_round_;
    bool closed_ = false;
    bool ended_ = true;
    std::atomic<bool> started_{false};
    std::thread thread_;
};

}  // namespace mpi_bridge
