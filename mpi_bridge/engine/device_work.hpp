// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "engine/execute/device_execution.hpp"
#include "engine/execute/device_executor.hpp"
#include "engine/execute/device_session.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// Runs the operations of a process set on device memory. They are agreed on, planned and run like
// all others, except that running one means enqueueing it in the set's DeviceGroup: when the engine
// calls it done, it is in flight on the device. From then on the group reports its end, and the
// negotiation thread watches over it.
//
// Call these functions without the lock of the state, except where noted.
class DeviceWork {
  public:
    explicit DeviceWork(ProcessSetState& state);
    ~DeviceWork();
    DeviceWork(const DeviceWork&) = delete;
    DeviceWork& operator=(const DeviceWork&) = delete;

    // Notes the current position of the stream that an operation on device memory follows. The
    // driver takes a moment for this, or longer if the stream is full.
    [[nodiscard]] Outcome<DeviceNote> admit(const mpib_operation& operation);

    // Enqueues the operations of a fused group in the DeviceGroup when it is their turn among those
    // of all process sets, and opens the DeviceGroup first if there is none, which is collective.
    // A request is null if this rank has joined.
    [[nodiscard]] Done run(Communicator& host, const Communicator::Call& call,
                           const Descriptor& what, std::span<OwnRequest* const> requests,
                           std::span<const std::size_t> counts);
    // Whether all members had the same failure in the latest run(), and nothing was enqueued.
    [[nodiscard]] bool refused() const { return session_.refused(); }

    // Makes the operation's stream wait for it. Requires the lock, and gives it up meanwhile.
    [[nodiscard]] Done wait(ProcessSetState::Lock& lock, const OwnRequest& request, double seconds);
    // Whether the device has finished it, successfully or not. Requires the lock, and gives it up
    // meanwhile.
    [[nodiscard]] bool poll(ProcessSetState::Lock& lock, const DeviceTicket& ticket);

    // The same for a ticket of an operation that need not be known any more; nullopt if the work
    // has failed. Any thread may call this, without the lock.
    [[nodiscard]] std::optional<bool> reached(const DeviceTicket& ticket);

    // Returns the failure of the work in flight, if it has failed or makes no progress. Any thread
    // may call this.
    [[nodiscard]] Done watch();
    // How soon watch() should be called; at most `otherwise`.
    [[nodiscard]] Seconds until_watch(Seconds otherwise) const;
    // Finishes the work in flight, provided that all members call this.
    void close();

    // Must be called without the lock, because the thread that holds it may be waiting for the
    // device.
    void abandon(const Failure& cause) { session_.abandon(cause); }
    void await_abandoned() { session_.await_abandoned(); }

  private:
    [[nodiscard]] Outcome<DeviceExecutor::Turn> take_turn(Communicator& host,
                                                          const Communicator::Call& call);
    [[nodiscard]] Done enqueue(Communicator& host, const Communicator::Call& call,
                               const Descriptor& what, std::span<OwnRequest* const> requests,
                               std::span<const std::size_t> counts);

    ProcessSetState& state_;
    DeviceSession
        session_;  // used by one thread at a time, the one that runs operations; see round.hpp
    std::optional<DeviceExecution> execution_;
};

}  // namespace mpi_bridge
