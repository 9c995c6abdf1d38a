// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "collectives/communicator.hpp"
#include "engine/collective_execution.hpp"
#include "engine/device_work.hpp"
#include "engine/plan_thread.hpp"
#include "engine/process_set_state.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {

// The thread that takes part in a process set's rounds of negotiation, and runs what they find
// submitted on all members: round, run, round, run. All members go through the same sequence, so
// they cannot wait for each other in a cycle.
//
// It also watches for what does not happen. If an operation has waited for a while, the rank begins
// a round even though it has no news. This is the keepalive: it takes a message to notice that a
// member is gone. If an operation has waited for long, the rank asks, in a round, what each member
// has submitted, and then reports it. A rank that hears the answers because another one has asked
// reports as well, if it was about to ask.
class NegotiationThread {
  public:
    NegotiationThread(ProcessSetState& state, PlanThread& plan_thread, DeviceWork& devices);
    ~NegotiationThread();  // the thread must end first
    NegotiationThread(const NegotiationThread&) = delete;
    NegotiationThread& operator=(const NegotiationThread&) = delete;

    // Starts the thread, unless it runs or the process set has failed.
    void start();

    // Requires the lock of the state.
    [[nodiscard]] bool ended() const { return ended_; }
    // Whether it has ended because all members have closed the process set. Requires the lock.
    [[nodiscard]] bool over() const { return ended_ && closed_; }
    // Frees everything once it is over. Called without the lock.
    void let_go();

  private:
    void work();
    void rounds();
    [[nodiscard]] bool has_news();
    // Tells the other members that this one has closed a set that only its members know, once no
    // operation of this rank is under way, and finds out whether all have said so. From then on
    // this rank begins no round, so that nobody is left alone in one.
    void say_closed();

    // Runs a round and its steps.
    [[nodiscard]] Done round();
    [[nodiscard]] Outcome<Step> carry_out(ProcessSetState::Lock& lock, Step& step);
    [[nodiscard]] Outcome<Step> reduce(ProcessSetState::Lock& lock, ReduceWords& step);
    [[nodiscard]] Outcome<Step> gather(ProcessSetState::Lock& lock, const GatherBytes& step);
    [[nodiscard]] Outcome<Step> stop_plan(ProcessSetState::Lock& lock, const StopPlan& step);
    [[nodiscard]] Outcome<Step> run(ProcessSetState::Lock& lock, const RunGroup& step);
    [[nodiscard]] Done run_group(const FusedGroup& group, std::uint64_t serial,
                                 std::span<OwnRequest* const> requests);

    // These decide when to look for stalls, and describe which operation waits for which ranks.
    [[nodiscard]] Deadline next_look();
    [[nodiscard]] bool look_for_stalls();
    // Reports what the members have just told, if this rank wanted to know.
    void report_stalls(ProcessSetState::Lock& lock);
    [[nodiscard]] Seconds oldest_age(Clock::time_point now) const;
    // Shows the operations of this rank that have waited for a while to other processes, and no
    // longer when they are done. With now_and_then it may be called often.
    enum class When { at_once, now_and_then };
    void show_open(Clock::time_point now, When when);
    [[nodiscard]] std::string pending_text(Clock::time_point now, Seconds at_least) const;

    ProcessSetState& state_;
    PlanThread& plan_thread_;
    DeviceWork& devices_;
    std::unique_ptr<Communicator> control_;
    CollectiveExecution negotiated_;
    StallWatch stall_watch_;
    bool shows_open_ = false;
    Clock::time_point next_show_;
    bool asked_who_ = false;  // for a report that is still due
    Clock::time_point latest_round_;
    bool closed_ = false;
    bool said_closed_ = false;
    bool ended_ = true;
    std::atomic<bool> started_{false};
    std::thread thread_;
};

}  // namespace mpi_bridge
