// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "engine/device_work.hpp"
#include "engine/negotiation_thread.hpp"
#include "engine/plan_lane.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// The part of the engine that serves one process set. Its threads, its lock and its communicators
// drive the state machines of negotiation/ and plan/.
//
// Three channels, each with a communicator of its own:
//
//   control     the exchanges of the rounds of negotiation (NegotiationThread)
//   negotiated  runs what a round has found submitted on all members (NegotiationThread)
//   planned     runs the plan (PlanLane)
//
// Device memory has a fourth channel where it goes through host memory. There is one DeviceGroup
// for both lanes, because two that use one device at once can block each other. To put an operation
// into the group waits for no other member, but when the group makes connections, in which all are
// at that time. On the device an operation waits for what its stream held at its submission, and a
// stream waits for operations only once they are in the group: so all waiting is for what is
// earlier in the group.
//
// Any thread may call any function.
class ProcessSetEngine {
  public:
    ProcessSetEngine(EngineHost& host, int process_set, std::uint32_t number, Group group);
    // stop() and ended() come first.
    ~ProcessSetEngine() = default;
    ProcessSetEngine(const ProcessSetEngine&) = delete;
    ProcessSetEngine& operator=(const ProcessSetEngine&) = delete;

    [[nodiscard]] const Group& group() const { return state_.group; }

    // The operation must have passed check_operation().
    [[nodiscard]] Outcome<mpib_handle> submit(const mpib_operation& operation);
    [[nodiscard]] std::optional<bool> poll(const Handle& handle);
    [[nodiscard]] Done wait(const Handle& handle, double seconds);
    [[nodiscard]] Outcome<mpib_result> result(const Handle& handle);
    [[nodiscard]] Done release(const Handle& handle);
    [[nodiscard]] Done call(const mpib_operation& operation);

    // A change of process sets, which all ranks must agree on; waits for it.
    [[nodiscard]] Outcome<int> change_process_sets(const Descriptor& change);

    // Starts to take part in rounds.
    void start() { negotiation_.start(); }
    // Ends when all members have called this. Does not wait for that.
    void close();

    // Ends everything with this failure; what runs ends because its communicator fails.
    void abandon(const Failure& failure);
    // The same, but what runs is left to end well.
    void stop(const Failure& failure);
    // Waits until no thread of the process set is left, and nobody runs a collective. False: the
    // deadline has passed.
    [[nodiscard]] bool ended(Deadline deadline);

  private:
    using Lock = ProcessSetState::Lock;
    using Index = RequestTable::Index;

    [[nodiscard]] Outcome<Index> enter(const mpib_operation& operation, DeviceNote note);
    void submitted(const Member::Submission& submission);
    [[nodiscard]] Handle handle_of(Index index);
    [[nodiscard]] Done outcome_of(const Entry& entry) const;
    void give_free(Index index);

    [[nodiscard]] bool await(Lock& lock, const Handle& handle, double seconds);
    [[nodiscard]] bool await_a_little(Lock& lock, const Handle& handle);
    [[nodiscard]] bool can_run_for(const Entry& entry);
    void watch_order(const Entry& entry, Clock::time_point now);
    [[nodiscard]] Seconds plan_patience() const;
    [[nodiscard]] Failure too_late(Index index) const;

    const std::uint32_t number_;
    ProcessSetState state_;
    DeviceWork devices_;
    PlanLane lane_;
    NegotiationThread negotiation_;

    // How long the head of the plan has been waiting for this rank; see watch_order().
    struct {
        std::uint64_t position = 0;
        std::size_t missing = 0;
        Clock::time_point since;
    } watched_;
};

}  // namespace mpi_bridge
