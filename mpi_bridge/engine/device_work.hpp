// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "engine/execute/device_execution.hpp"
#include "engine/execute/device_lane.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// The operations of a process set on device memory. They are agreed on, planned and run like all
// others, but to run one is to put it into the set's DeviceGroup: what the engine calls done is
// then under way on the device. From there the group answers for it, and the negotiation watches
// over it.
//
// Without the lock of the state, except where said otherwise.
class DeviceWork {
  public:
    explicit DeviceWork(ProcessSetState& state);
    ~DeviceWork();
    DeviceWork(const DeviceWork&) = delete;
    DeviceWork& operator=(const DeviceWork&) = delete;

    // Notes where the stream of an operation on device memory stands. Takes the driver a moment, or
    // longer where the stream is full.
    [[nodiscard]] Outcome<DeviceNote> admit(const mpib_operation& operation);

    // Puts the operations of a fused group into the DeviceGroup, which is opened when there is
    // none: all members come to this. An entry is null where this rank has joined.
    [[nodiscard]] Done run(Communicator& host, const Communicator::Call& call,
                           const Descriptor& what, std::span<Entry* const> entries,
                           std::span<const std::size_t> counts);
    // The latest failure of run() was the same on all members, and left no trace.
    [[nodiscard]] bool refused() const { return lane_.refused(); }

    // Makes the operation's stream wait for it. With the lock, which it gives up meanwhile.
    [[nodiscard]] Done wait(ProcessSetState::Lock& lock, const Entry& entry, double seconds);
    // Whether the device has done it, well or not. With the lock, which it gives up meanwhile.
    [[nodiscard]] bool poll(ProcessSetState::Lock& lock, const DeviceTicket& ticket);

    // Returns the failure of what is under way, if it has failed or does not move.
    [[nodiscard]] Done watch();
    // How soon watch() should be called, if sooner than `otherwise`.
    [[nodiscard]] Seconds until_watch(Seconds otherwise) const;
    // Finishes what is under way, if all members come to this.
    void close();

    // Any thread; needs no lock, because who has it may be waiting for the device.
    void abort() { lane_.abort(); }
    void abandon_host() { lane_.abandon_host(); }

  private:
    ProcessSetState& state_;
    DeviceLane lane_;  // used by whoever runs operations, one after the other; see round.hpp
    std::optional<DeviceExecution> execution_;
};

}  // namespace mpi_bridge
