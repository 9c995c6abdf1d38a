// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/entry.hpp"
#include "engine/execute/device_lane.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {

// Puts operations on device memory into the lane's group, which is open. They are done when it says
// so; here they are only enqueued, and the entries get what to ask it for. The members must make
// the same sequence of calls. One thread at a time.
class DeviceExecution {
  public:
    DeviceExecution(DeviceLane& lane, const Group& group, Trace& trace, int process_set)
        : lane_(lane), group_(group), trace_(trace), process_set_(process_set) {}

    // A bucket of allreduces that are all as `what` says but for their shape. An entry may be
    // nullptr, where this rank has joined: it takes part with neutral elements.
    [[nodiscard]] Done allreduce(std::string_view label, const Descriptor& what,
                                 std::span<Entry* const> entries,
                                 std::span<const std::size_t> counts);

    // Any other kind. Numbers of rows that only the sender knows go through `host`.
    [[nodiscard]] Done run_single(Communicator& host, const Communicator::Call& call, Entry& entry);

  private:
    // Constant memory of neutral elements, and memory for results that nobody wants. What it
    // outgrew is kept, because operations may be using it.
    struct Spare {
        std::size_t bytes = 0;
        std::vector<Memory> neutral;
        std::vector<Memory> unwanted;
    };

    using Enqueue = std::function<Outcome<DeviceTicket>(const DeviceStart&)>;
    [[nodiscard]] Done enqueue(std::string_view label, std::span<Entry* const> entries,
                               const Enqueue& call);
    [[nodiscard]] Done gather_notes(std::span<Entry* const> entries);
    [[nodiscard]] Outcome<const Spare*> spare(const Descriptor& what, std::size_t bytes);
    [[nodiscard]] Outcome<std::byte*> result_memory(Entry& entry, std::size_t bytes);
    [[nodiscard]] Done broadcast(std::string_view label, Entry& entry);
    [[nodiscard]] Done reduce_scatter(std::string_view label, Entry& entry);
    [[nodiscard]] Done allgather(Communicator& host, const Communicator::Call& call, Entry& entry);
    [[nodiscard]] Done alltoall(Communicator& host, const Communicator::Call& call, Entry& entry);

    DeviceLane& lane_;
    const Group& group_;
    Trace& trace_;
    int process_set_;
    std::map<std::pair<mpib_datatype, mpib_op>, Spare> spares_;
    // Kept for their memory.
    std::vector<DevicePart> parts_;
    std::vector<DeviceNote> notes_;
    std::vector<std::pair<void*, Entry*>> latest_;  // of each stream
};

}  // namespace mpi_bridge
