// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/interruption.hpp"
#include "engine/device_work.hpp"
#include "engine/negotiation_thread.hpp"
#include "engine/plan_thread.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// The part of the engine that serves one process set. Its threads, its lock and its communicators
// drive the state machines of negotiation/.
//
// There are three channels, each with a communicator of its own:
//
//   control     the exchanges of the rounds of negotiation (NegotiationThread)
//   negotiated  runs what a round has found submitted on all members (NegotiationThread)
//   planned     runs the plan (PlanThread)
//
// Device memory that is staged through host memory has a fourth channel. There is one
// DeviceGroup for both threads, because two groups that use one device at once can block each
// other. For the same reason the groups of several process sets take turns (DeviceExecutor). In its
// turn, to enqueue an operation waits for no other member, except when the group makes connections,
// and at that time all members are in that call. On the device, an operation waits for the one
// before it and for what its stream held at the submission, and a stream waits for operations only
// once they are enqueued. So every wait is for something earlier in the order of the executor.
//
// Any thread may call any function.
class ProcessSetEngine {
  public:
    ProcessSetEngine(EngineHost& host, int process_set, std::uint32_t number, Group group);
    // shutdown() and ended() must come first.
    ~ProcessSetEngine() = default;
    ProcessSetEngine(const ProcessSetEngine&) = delete;
    ProcessSetEngine& operator=(const ProcessSetEngine&) = delete;

    [[nodiscard]] const Group& group() const { return state_.group; }
    [[nodiscard]] int process_set() const { return state_.process_set; }

    // The operation must have passed check_operation().
    [[nodiscard]] Outcome<mpib_handle> submit(const mpib_operation& operation);
    [[nodiscard]] std::optional<bool> poll(const Handle& handle);
    [[nodiscard]] Done wait(const Handle& handle, double seconds);
    [[nodiscard]] Outcome<mpib_result> result(const Handle& handle);
    // Returns the ticket of an operation under way on the device, else one with the number 0.
    [[nodiscard]] DeviceTicket device_ticket(const Handle& handle);
    // Returns nullopt if the device's work has failed.
    [[nodiscard]] std::optional<bool> device_reached(const DeviceTicket& ticket) {
        return devices_.reached(ticket);
    }
    [[nodiscard]] Done release(const Handle& handle);
    [[nodiscard]] Done call(const mpib_operation& operation);

    // Submits a change of process sets, which all ranks must agree on, and waits for it.
    [[nodiscard]] Outcome<int> change_process_sets(const Descriptor& change);

    // Starts to take part in rounds.
    void start() { negotiation_.start(); }
    // The process set ends once all members have called this. Does not wait for that.
    void close();
    // The same for a set that only its members know; see Member::retire().
    void retire();
    // Another member, by its global rank, has retired.
    void member_closed(int rank);
    // If all members have done so and the threads have ended, frees what they have used, and
    // returns true. Handles stay valid. One thread at a time may call this.
    [[nodiscard]] bool let_go();

    // Fails what waits with this cause and ends the threads, but lets running collectives finish.
    void shutdown(const Failure& cause);
    // Does the same, and begins to end the work on the device. The communicators end the
    // collectives that run, because they watch the same failure.
    void abandon(const Failure& cause);
    // Waits until the work on the device has ended. All process sets must be abandoned before.
    void await_abandoned() { devices_.await_abandoned(); }
    // Waits until the process set has no threads left and nobody runs a collective. Returns false
    // if the deadline has passed.
    [[nodiscard]] bool ended(Deadline deadline);

  private:
    using Lock = ProcessSetState::Lock;
    using Index = RequestTable::Index;

    [[nodiscard]] Outcome<Index> enter(const mpib_operation& operation, DeviceNote note);
    void submitted(const Member::Submission& submission, Clock::time_point now);
    [[nodiscard]] Handle handle_of(Index index);
    [[nodiscard]] Done outcome_of(const OwnRequest& request) const;
    void give_free(Index index);

    // Waits for the end of an operation. Returns false if `seconds` > 0 have passed, or if the
    // thread was asked to leave and may do so.
    enum class Leave { may, must_not };
    [[nodiscard]] bool await(Lock& lock, const Handle& handle, double seconds,
                             const Interruption& interruption, Leave leave);
    [[nodiscard]] bool await_a_little(Lock& lock, const Handle& handle);
    [[nodiscard]] bool can_run_for(const OwnRequest& request);
    void watch_order(const OwnRequest& request, Clock::time_point now);
    [[nodiscard]] Seconds plan_patience() const;
    [[nodiscard]] Failure too_late(Index index) const;

    const std::uint32_t number_;
    ProcessSetState state_;
    DeviceWork devices_;
    PlanThread plan_thread_;
    NegotiationThread negotiation_;

    // How long the head of the plan has been waiting for this rank; see watch_order().
    struct {
        std::uint64_t position = 0;
        std::size_t missing = 0;
        Clock::time_point since;
    } watched_;
};

}  // namespace mpi_bridge
