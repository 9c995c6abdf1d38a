// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/communicator.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/own_request.hpp"
#include "trace/trace.hpp"

// Runs on tensors what the members have agreed to run.
//
//   host_execution.hpp         in host memory: buckets of allreduces
//   host_execution_single.cpp  in host memory: operations of any other kind
//   device_execution.hpp       on device memory: enqueues the operations
//   device_session.hpp         on device memory: a process set's DeviceGroup, opened when needed
//   device_executor.hpp        puts the work of all process sets on the device in one order
//   total_order.hpp            how the ranks agree on that order
//   own_device.hpp             the device on which this process has its tensors
//   row_counts.hpp             exchanges the lengths of first dimensions that only the sender knows
//   neutral.hpp                the elements of a rank without a tensor, and the status element
namespace mpi_bridge {

// The memory of an operation's elements. If `send` is null, this rank has not submitted the
// operation: it takes part with neutral elements and drops the result.
struct Tensor {
    std::string_view name;
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t count = 0;
};

// Returns the memory of an allreduce of this rank; `request` is null if it has not submitted it.
[[nodiscard]] Tensor tensor_of(const OwnRequest* request, std::size_t count);

// Runs operations on the communicator of one channel. The members must make the same sequence of
// calls. Only one thread at a time may use it.
class HostExecution {
  public:
    HostExecution(Communicator& communicator, Scratch& scratch, Trace& trace, int process_set)
        : communicator_(communicator),
          scratch_(scratch),
          trace_(trace),
          process_set_(process_set) {}

    // Buckets of up to this many bytes are packed wherever their tensors lie in memory, and include
    // the status element of allreduce_if_whole().
    static constexpr std::size_t small_bucket_bytes = 32UL * 1024;

    // Runs a bucket of allreduces that match `what` in everything but the shape. If the tensors lie
    // side by side in memory, they are reduced in place; otherwise they are packed.
    [[nodiscard]] Done allreduce(const Communicator::Call& call, const Descriptor& what,
                                 std::span<const Tensor> tensors);

    // Does the same for a small bucket, provided that every rank passes `whole`; otherwise returns
    // false on all ranks and writes nothing. A rank that does not pass `whole` may have tensors
    // without send.
    [[nodiscard]] Outcome<bool> allreduce_if_whole(const Communicator::Call& call,
                                                   const Descriptor& what,
                                                   std::span<const Tensor> tensors, bool whole);
    [[nodiscard]] bool can_check_in_band(const Descriptor& what, std::size_t bytes) const;

    // Runs an operation of any other kind, except changes of process sets, and fills in the
    // request's result.
    [[nodiscard]] Done run_single(const Communicator::Call& call, OwnRequest& request);

  private:
    [[nodiscard]] Done broadcast(const Communicator::Call& call, OwnRequest& request);
    [[nodiscard]] Done reduce(const Communicator::Call& call, OwnRequest& request);
    [[nodiscard]] Done reduce_scatter(const Communicator::Call& call, OwnRequest& request);
    [[nodiscard]] Done allgather(const Communicator::Call& call, OwnRequest& request);
    [[nodiscard]] Done alltoall(const Communicator::Call& call, OwnRequest& request);

    // The three parts of an allreduce. Each takes the time at which it begins and returns the time
    // at which it ends, because a look at the clock takes as long as a small copy. transfer() runs
    // the collective itself, for a bucket that is packed or needs no packing.
    [[nodiscard]] Clock::time_point pack(const Descriptor& what, std::span<const Tensor> tensors,
                                         std::byte* into, Clock::time_point began);
    [[nodiscard]] Outcome<Clock::time_point> transfer(const Communicator::Call& call,
                                                      const Descriptor& what,
                                                      std::span<const Tensor> tensors,
                                                      const Tensor& whole, Clock::time_point began);
    void unpack(const Descriptor& what, std::span<const Tensor> tensors, const std::byte* from,
                Clock::time_point began);
    // Returns the request's elements times its prescale factor: in place or as a scaled copy.
    [[nodiscard]] const std::byte* scaled(const OwnRequest& request, std::size_t count);
    [[nodiscard]] int index_of(int global_rank) const;
    // Counts a collective that has just ended, and returns the time.
    Clock::time_point transferred(const Descriptor& what, std::size_t bytes,
                                  Clock::time_point began);

    Communicator& communicator_;
    Scratch& scratch_;
    Trace& trace_;
    int process_set_;
};

// The mpib_kind under which counters and the timeline show the operation; changes of process sets
// count as barriers.
[[nodiscard]] mpib_kind shown_kind(Kind kind);

}  // namespace mpi_bridge
