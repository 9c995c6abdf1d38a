// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "collectives/communicator.hpp"
#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/execute/own_device.hpp"
#include "gpu/device_group.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What a process set uses for device memory: its DeviceGroup, which is opened when the members have
// agreed on their first operation on device memory, and the communicator that the group stages
// through.
//
// The members must use the group in the same order. The rounds of negotiation ensure that; see
// round.hpp.
class DeviceSession {
  public:
    struct Options {
        std::string name;  // for messages: "process set 0"
        DevicePath path = DevicePath::automatic;
        // Opens a communicator of Channel::Lane::device.
        std::function<Outcome<std::unique_ptr<Communicator>>()> open;
        std::function<Seconds()> timeout;
        OwnDevice* own_device = nullptr;
        int local_index = 0;  // of this rank among those of its host
    };
    explicit DeviceSession(Options options) : options_(std::move(options)) {}

    // ---- For any thread ----

    // Fails unless the tensor is where this rank's other ones are: on one device, or on the host.
    [[nodiscard]] Done admit(const mpib_operation& operation);
    // Notes the current position of the stream. Empty before the group is open.
    [[nodiscard]] Outcome<DeviceNote> note(DeviceStream stream);
    [[nodiscard]] bool is_open() const { return in_use_ != nullptr; }
    [[nodiscard]] bool on_host() const { return device_ < 0; }  // or not open
    // CUDA's ordinal or OwnDevice::host, once the group is open.
    [[nodiscard]] int device() const { return device_; }
    [[nodiscard]] Outcome<bool> poll(const DeviceTicket& ticket);
    [[nodiscard]] Done make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                        Seconds longest);
    // Whether work may be in flight on the device.
    [[nodiscard]] bool busy() const;
    // Returns the failure of the work in flight, if it has failed or makes no progress. Requires
    // that the group is open.
    [[nodiscard]] Done watch();
    // Begins to end the work in flight on this rank; await_abandoned() waits for that. All sessions
    // of the process must be abandoned before.
    void abandon(const Failure& cause);
    void await_abandoned();

    // ---- For one thread at a time, in the same order on all members ----

    // Begins an operation, which has not been refused yet.
    void begin() { refused_ = false; }
    // Collective; the members talk through `control`. If it fails and refused() is true, it has
    // failed alike on all members and may be tried again.
    [[nodiscard]] Done open(Communicator& control);
    // Finishes the work in flight, as far as that is possible before the deadline.
    void close(Deadline deadline);
    // Requires that the group is open.
    [[nodiscard]] DeviceGroup& group() { return *group_; }
    // Takes what a call of the group returned, and the name of the operation for messages.
    [[nodiscard]] Outcome<DeviceTicket> started(Outcome<DeviceTicket> ticket,
                                                std::string_view what);
    // Whether all members have had the same failure in open() or started() since begin(), without
    // side effects.
    [[nodiscard]] bool refused() const { return refused_; }

  private:
    struct Started {
        DeviceTicket ticket;
        std::string what;
        Clock::time_point since;
    };

    // Fails unless the device is that of this rank's other tensors.
    [[nodiscard]] Done settle_on(int device);
    [[nodiscard]] DeviceGroupOptions group_options(Communicator& control);

    const Options options_;
    std::atomic<int> device_{OwnDevice::unknown};
    std::atomic<bool> had_a_tensor_{false};  // otherwise device_ was settled without one
    bool control_failed_ = false;
    bool refused_ = false;

    std::mutex opening_;
    std::optional<Failure> cause_;  // of abandon(); guarded by `opening_`
    std::unique_ptr<Communicator> host_;
    // Set under `opening_`; must end before the communicator that it uses.
    std::unique_ptr<DeviceGroup> group_;
    std::atomic<DeviceGroup*> in_use_{nullptr};

    mutable std::mutex mutex_;
    Started latest_;  // guarded by the mutex
    std::mutex watching_;
    std::optional<Started> watched_;  // guarded by `watching_`
    std::atomic<std::uint64_t> reached_{0};
};

}  // namespace mpi_bridge
