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
#include "gpu/device.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What a process set works on device memory with: its DeviceGroup, which is opened when the members
// have agreed on their first such operation, and the communicator that the group stages through.
//
// The members must use the group in the same order. The rounds of negotiation see to that: see
// round.hpp.
class DeviceLane {
  public:
    struct Options {
        std::string name;  // for messages: "process set 0"
        DevicePath path = DevicePath::automatic;
        // Of Channel::Lane::device.
        std::function<Outcome<std::unique_ptr<Communicator>>()> open;
        std::function<Seconds()> timeout;
    };
    explicit DeviceLane(Options options) : options_(std::move(options)) {}

    // ---- Any thread ----

    // Whether the memory is where this rank's other tensors are: on one device, or on the host.
    [[nodiscard]] Done admit(const mpib_operation& operation);
    // Where the stream stands now; holds nothing before the group is open.
    [[nodiscard]] Outcome<DeviceNote> note(DeviceStream stream);
    [[nodiscard]] bool is_open() const { return in_use_ != nullptr; }
    [[nodiscard]] bool on_host() const { return device_ < 0; }
    [[nodiscard]] Outcome<bool> poll(const DeviceTicket& ticket);
    [[nodiscard]] Done make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                        Seconds longest);
    // Ends what is under way on this rank.
    void abort();
    // Makes calls fail that stage through the node's shared memory, on its other ranks too.
    void abandon_host();

    // ---- One thread at a time, in the same order on all members ----

    // Collective; `control` carries what the members tell each other. Where it has failed and
    // refused() is true, it has failed alike on all of them, and may be tried again.
    [[nodiscard]] Done open(Communicator& control);
    // Finishes what is under way, as far as that is possible before the deadline.
    void close(Deadline deadline);
    // Only when open.
    [[nodiscard]] DeviceGroup& group() { return *group_; }
    // What a call of the group has returned, and of which operation, for messages.
    [[nodiscard]] Outcome<DeviceTicket> started(Outcome<DeviceTicket> ticket,
                                                std::string_view what);
    // The latest failure of open() or started() was the same on all members, and left no trace.
    [[nodiscard]] bool refused() const { return refused_; }

    // ---- The negotiation thread ----

    // Something may be under way on the device.
    [[nodiscard]] bool busy() const;
    // The failure of what is under way, if it has failed or does not move.
    [[nodiscard]] Done watch();

  private:
    struct Started {
        DeviceTicket ticket;
        std::string what;
        Clock::time_point since;
    };
    static constexpr int unknown = -2;

    [[nodiscard]] DeviceGroupOptions group_options(Communicator& control);

    const Options options_;
    std::atomic<int> device_{unknown};  // CUDA's ordinal; -1: host memory
    std::atomic<bool> aborted_{false};
    bool control_failed_ = false;
    bool refused_ = false;

    std::mutex opening_;
    std::unique_ptr<Communicator> host_;  // made, and abandoned, under `opening_`
    std::unique_ptr<DeviceGroup> group_;  // ends before the communicator it uses
    std::atomic<DeviceGroup*> in_use_{nullptr};

    mutable std::mutex mutex_;
    Started latest_;                  // under the mutex
    std::optional<Started> watched_;  // of the negotiation thread
    std::atomic<std::uint64_t> reached_{0};
};

}  // namespace mpi_bridge
