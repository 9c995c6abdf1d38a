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
#include "engine/entry.hpp"
#include "engine/execute/workspace.hpp"
#include "engine/negotiation/descriptor.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {

// Where an operation's elements are. Without `send` this rank has not submitted it: it takes part
// with neutral elements and drops the result.
struct Tensor {
    std::string_view name;
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t count = 0;
};

// Runs operations on the communicator of one lane. The members must make the same sequence of
// calls. One thread at a time.
class HostExecution {
  public:
    HostExecution(Communicator& communicator, Workspace& workspace, Trace& trace, int process_set)
        : communicator_(communicator),
          workspace_(workspace),
          trace_(trace),
          process_set_(process_set) {}

    // Buckets up to this many bytes are packed whatever their place in memory, and carry the word
    // on success of allreduce_if_whole() with them.
    static constexpr std::size_t small_bucket_bytes = 32UL * 1024;

    // A bucket of allreduces, which all are as `what` says but for their shape. Reduced where it is
    // when the tensors lie one after the other in memory, else packed.
    [[nodiscard]] Done allreduce(const Communicator::Call& call, const Descriptor& what,
                                 std::span<const Tensor> tensors);

    // The same for a small bucket, provided that every rank passes `whole`; else false on all
    // ranks, and nothing is written. Tensors of a rank that does not pass it may lack send.
    [[nodiscard]] Outcome<bool> allreduce_if_whole(const Communicator::Call& call,
                                                   const Descriptor& what,
                                                   std::span<const Tensor> tensors, bool whole);
    [[nodiscard]] bool can_check_in_band(const Descriptor& what, std::size_t bytes) const;

    // Any other kind but those that change process sets. Fills in the entry's result.
    [[nodiscard]] Done run_single(const Communicator::Call& call, Entry& entry);

  private:
    [[nodiscard]] Done broadcast(const Communicator::Call& call, Entry& entry);
    [[nodiscard]] Done reduce(const Communicator::Call& call, Entry& entry);
    [[nodiscard]] Done reduce_scatter(const Communicator::Call& call, Entry& entry);
    [[nodiscard]] Done allgather(const Communicator::Call& call, Entry& entry);
    [[nodiscard]] Done alltoall(const Communicator::Call& call, Entry& entry);

    struct Vectors {
        const std::byte* send;
        std::byte* recv;
        std::size_t count;
    };
    // The collective itself, for a bucket that is packed or needs no packing.
    [[nodiscard]] Done transfer(const Communicator::Call& call, const Descriptor& what,
                                std::span<const Tensor> tensors, const Vectors& vectors);
    void pack(const Descriptor& what, std::span<const Tensor> tensors, std::byte* into);
    void unpack(const Descriptor& what, std::span<const Tensor> tensors, const std::byte* from);
    // The entry's elements, times its prescale factor: where they are, or a scaled copy.
    [[nodiscard]] const std::byte* scaled(const Entry& entry, std::size_t count);
    [[nodiscard]] int index_of(int global_rank) const;
    void transferred(const Descriptor& what, std::size_t bytes, Clock::time_point began);

    Communicator& communicator_;
    Workspace& workspace_;
    Trace& trace_;
    int process_set_;
};

// mpib_kind, for what is counted and shown: process set changes count as barriers.
[[nodiscard]] mpib_kind shown_kind(Kind kind);

}  // namespace mpi_bridge
