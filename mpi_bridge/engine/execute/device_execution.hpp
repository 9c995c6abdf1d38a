// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/execute/device_executor.hpp"
#include "engine/execute/device_session.hpp"
#include "engine/negotiation/requests/own_request.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {

// Enqueues operations on device memory in the session's group, which must be open, and gives their
// requests the ticket by which the group tells when they are done. The members must make the same
// sequence of calls, each in its turn of the executor. Only one thread at a time may use it.
class DeviceExecution {
  public:
    DeviceExecution(DeviceExecutor& executor, DeviceSession& session, const Group& group,
                    Trace& trace, int process_set)
        : executor_(executor),
          session_(session),
          group_(group),
          trace_(trace),
          process_set_(process_set) {}

    // Runs a bucket of allreduces that match `what` in everything but the shape. A request is
    // nullptr if this rank has joined and takes part with neutral elements.
    [[nodiscard]] Done allreduce(std::string_view label, const Descriptor& what,
                                 std::span<OwnRequest* const> requests,
                                 std::span<const std::size_t> counts);

    // Runs an operation of any other kind. Row counts that only the sender knows are exchanged
    // through `host`.
    [[nodiscard]] Done run_single(Communicator& host, const Communicator::Call& call,
                                  OwnRequest& request);

  private:
    // Constant memory of neutral elements, and memory for results that are dropped. Memory that has
    // become too small is kept, because operations may still be using it.
    struct Spare {
        std::size_t bytes = 0;
        std::vector<Memory> neutral;
        std::vector<Memory> unwanted;
    };

    using Enqueue = std::function<Outcome<DeviceTicket>(const DeviceStart&)>;
    [[nodiscard]] Done enqueue(std::string_view label, std::span<OwnRequest* const> requests,
                               const Enqueue& call);
    [[nodiscard]] Done gather_notes(std::span<OwnRequest* const> requests);
    [[nodiscard]] Outcome<const Spare*> spare(const Descriptor& what, std::size_t bytes);
    [[nodiscard]] Outcome<std::byte*> result_memory(OwnRequest& request, std::size_t bytes);
    [[nodiscard]] Done broadcast(std::string_view label, OwnRequest& request);
    [[nodiscard]] Done reduce_scatter(std::string_view label, OwnRequest& request);
    [[nodiscard]] Done allgather(Communicator& host, const Communicator::Call& call,
                                 OwnRequest& request);
    [[nodiscard]] Done alltoall(Communicator& host, const Communicator::Call& call,
                                OwnRequest& request);

    DeviceExecutor& executor_;
    DeviceSession& session_;
    const Group& group_;
    Trace& trace_;
    int process_set_;
    std::map<std::pair<mpib_datatype, mpib_op>, Spare> spares_;
    // Kept to reuse their memory.
    std::vector<DevicePart> parts_;
    std::vector<DeviceNote> notes_;
    std::vector<std::pair<void*, OwnRequest*>> latest_;  // the latest one of each stream
};

}  // namespace mpi_bridge
