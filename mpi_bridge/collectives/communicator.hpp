// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "collectives/conversation.hpp"
#include "core/group.hpp"
#include "core/settings.hpp"
#include "core/waits.hpp"
#include "reduce/reduction.hpp"
#include "transport/transport.hpp"

// Collectives among the ranks of a group. A Communicator runs them one after the other; the other
// files have what its calls are made of.
//
//   communicator.hpp        runs the collectives of one group in one channel
//   conversation.hpp        the messages of one call
//   group_layout.hpp        where the members of a group are, and which of them talk between hosts
//   node_stage_opening.hpp  opens the shared memory of the members on this rank's node
//   reducer.hpp             how an algorithm reduces: finished values, or partial results
//   chunks.hpp              a vector cut into one chunk per rank
//   scratch.hpp             memory that is kept from call to call
//   algorithms/             the algorithms that need nothing but messages, in a file each
//   hierarchical/           collectives over several nodes, with shared memory inside each
//   select/                 which algorithm is used for which length
namespace mpi_bridge {

class FailureToken;
class SharedHeap;

// Runs the collectives of one group in one channel: it chooses the algorithm by size and by the
// location of the members, and uses shared memory between members on the same node.
//
// All members must make the same sequence of calls with matching arguments. Only one thread at a
// time may use a communicator; communicators of different channels may be used at the same time.
// Roots and parts are indexed by the numbers within the group. After a failure of any call but
// next_call() the communicator must not be used any more, and the caller must abandon() it and the
// transport.
class Communicator {
  public:
    struct Options {
        Group group;
        Channel channel;
        bool shared_memory = true;        // false: all messages go through the transport
        SharedHeap* heap = nullptr;       // of this process; nullptr: every collective copies
        Waits* waits = nullptr;           // where this rank registers long waits, if anywhere
        FailureToken* failure = nullptr;  // whose failure ends calls in progress; must outlive it
        // How much of a long vector is processed at once by calls that need memory besides the
        // caller's; that memory is kept. Must be the same on all ranks.
        std::size_t share_bytes = 8UL * 1024 * 1024;
        Settings settings;
    };

    // Identifies a call, for messages and for the check that all members make the same call. Sizes,
    // kinds and reductions must be part of `agreement` to be checked.
    struct Call {
        std::string_view name;
        std::uint64_t agreement = 0;
        Seconds patience = no_limit;  // how long to wait for a peer without any progress
    };

    // The transport must outlive the communicator. Not collective: the first call that needs
    // connections, or the node's shared memory, sets them up.
    [[nodiscard]] static Outcome<std::unique_ptr<Communicator>> open(Transport& transport,
                                                                     Options options);
    virtual ~Communicator() = default;
    Communicator() = default;
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;

    [[nodiscard]] virtual const Group& group() const = 0;

    // Which way data goes, for reports; before the first call it is the expected way.
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
    // parts[r] is where member r's contribution belongs; this member's own part is already in
    // place.
    [[nodiscard]] virtual Done allgather(const Call& call, std::span<const Bytes> parts) = 0;
    [[nodiscard]] virtual Done broadcast(const Call& call, Bytes data, int root) = 0;
    // out[r] goes to member r, in[r] comes from member r; this member's own part is copied. If the
    // members know nothing of the lengths, they tell each other if the choice of the algorithm
    // depends on it. Equal lengths must be part of the agreement.
    [[nodiscard]] virtual Done alltoall(const Call& call, std::span<const ConstBytes> out,
                                        std::span<const Bytes> in,
                                        std::optional<MessageLengths> known) = 0;
    [[nodiscard]] virtual Done barrier(const Call& call) = 0;

    enum class Next { call, stopped, late };
    // Waits, without making a call, until another member has begun the next call of this channel
    // (Next::call), until `stop` returns true (Next::stopped; it is called at the start and after
    // each Transport::wake()), or until the deadline (Next::late). This requires that shared_memory
    // is false, because a call through shared memory sends no message that could be noticed.
    [[nodiscard]] virtual Outcome<Next> next_call(const std::function<bool()>& stop,
                                                  Deadline deadline) = 0;

    // Makes calls in progress, on this rank and on others of the node, fail at once with this
    // cause. May be called from any thread.
    virtual void abandon(const Failure& cause) = 0;
};

}  // namespace mpi_bridge
