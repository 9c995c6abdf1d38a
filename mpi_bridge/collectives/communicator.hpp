// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "collectives/conversation.hpp"
#include "core/group.hpp"
#include "core/settings.hpp"
#include "reduce/reduction.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

class CommunicatorRegistry;
class SharedHeap;

// Runs the collectives of one group in one channel: chooses the algorithm by size and by where the
// members are, and goes through shared memory where they share a node.
//
// All members must make the same sequence of calls with agreeing arguments. One thread at a time;
// communicators of different channels may be used at the same time. Roots and parts are indexed by
// the group's numbers. After a failure of any call but next_call() the communicator must not be
// used any more, and the caller must abandon() it and the transport.
class Communicator {
  public:
    struct Options {
        Group group;
        Channel channel;
        bool shared_memory = true;   // false: all messages go through the transport
        SharedHeap* heap = nullptr;  // of this process; nullptr: no collective is free of copies
        CommunicatorRegistry* registry = nullptr;  // entered for the communicator's life, if any
        Settings settings;
    };

    // What a call is, for messages and for the check that all members make the same. Sizes, kinds
    // and reductions must be part of `agreement` if they are to be checked.
    struct Call {
        std::string_view name;
        std::uint64_t agreement = 0;
        Seconds patience{300};  // how long to wait for a peer without any progress
    };

    // The transport must outlive the communicator. Not collective: connections, and the node's
    // shared memory, are made by the first call that needs them.
    [[nodiscard]] static Outcome<std::unique_ptr<Communicator>> open(Transport& transport,
                                                                     Options options);
    virtual ~Communicator() = default;
    Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    [[nodiscard]] virtual const Group& group() const = 0;

    // Which way data goes, for reports; what is expected, before the first call.
    enum class Way { shared_memory, network, both };
    [[nodiscard]] virtual Way way() const = 0;

    // recv may be send.
    [[nodiscard]] virtual Done allreduce(const Call& call, const Reduction& reduction,
                                         const std::byte* send, std::byte* recv,
                                         std::size_t count) = 0;
    // recv is used on the root only and may be send there.
    [[nodiscard]] virtual Done reduce(const Call& call, const Reduction& reduction,
                                      const std::byte* send, std::byte* recv, std::size_t count,
                                      int root) = 0;
    // counts[r] elements of the result go to member r; recv must not overlap send.
    [[nodiscard]] virtual Done reduce_scatter(const Call& call, const Reduction& reduction,
                                              const std::byte* send, std::byte* recv,
                                              std::span<const std::size_t> counts) = 0;
    // parts[r] is where member r's contribution belongs; the own part is in place already.
    [[nodiscard]] virtual Done allgather(const Call& call, std::span<const Bytes> parts) = 0;
    [[nodiscard]] virtual Done broadcast(const Call& call, Bytes data, int root) = 0;
    // out[r] goes to member r, in[r] comes from member r; the own part is copied.
    [[nodiscard]] virtual Done alltoall(const Call& call, std::span<const ConstBytes> out,
                                        std::span<const Bytes> in) = 0;
    [[nodiscard]] virtual Done barrier(const Call& call) = 0;

    enum class Next { call, stopped, late };
    // Waits without making a call until another member has begun the next call of this channel
    // (Next::call), until `stop` returns true (Next::stopped; asked at first, and again after each
    // Transport::wake()), or until the deadline (Next::late). Only where shared_memory is false: a
    // call through shared memory sends no message that could be seen.
    [[nodiscard]] virtual Outcome<Next> next_call(const std::function<bool()>& stop,
                                                  Deadline deadline) = 0;

    // Makes calls that are under way on other ranks of the node fail at once. Any thread.
    virtual void abandon() = 0;
};

}  // namespace mpi_bridge
