// SPDX-License-Identifier: Apache-2.0
//
// Messages inside a node go through its shared memory. Long messages between nodes go directly from
// rank to rank. Short ones, of which there are many, go through the leaders: all short messages
// from one node to another form one message, a "block".
//
//   1. The leader learns the lengths of its node's short messages, in both directions.
//   2. It gathers the outgoing ones by rank, and arranges them in blocks: for each node, for each
//      sending rank, for each receiving rank.
//   3. It exchanges a block with every other leader, and scatters what it receives, by rank.
//
// Steps 2 and 3 handle as many nodes at once as the memory allows. Among many nodes, short blocks
// are sent through the leaders of other nodes, which takes fewer messages. Both ranks of a message
// know its length, so they agree whether it is short. Unless blocks are sent through others, the
// bytes between nodes are just those of the messages, and with h nodes there are h-1 messages per
// leader, instead of one from each rank to every rank of the other nodes.
//
// A block is sent even if it is empty, so that ranks detect it when they disagree about a length.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/chunks.hpp"
#include "collectives/hierarchical/hierarchical.hpp"

namespace mpi_bridge {
namespace {

using Length = std::uint32_t;

// One direction: the members of other nodes, in the order of their nodes' turns, and what each of
// this node's ranks sends to them or receives from them.
struct Direction {
    std::vector<int> members;
    std::vector<std::size_t> starts{0};  // the first member of each turn's node
    std::vector<Length> own;             // lengths of this rank's messages, by member in that order
    std::vector<Length> all;             // on the leader: `own` of each local rank

    [[nodiscard]] std::size_t length(std::size_t local_rank, std::size_t index) const {
        return all[local_rank * members.size() + index];
    }
    [[nodiscard]] std::size_t length(std::size_t local_rank, std::size_t first_turn,
                                     std::size_t end_turn) const {
        const auto from = all.begin() + static_cast<std::ptrdiff_t>(local_rank * members.size());
        return std::accumulate(from + static_cast<std::ptrdiff_t>(starts[first_turn]),
                               from + static_cast<std::ptrdiff_t>(starts[end_turn]),
                               std::size_t{0});
    }
    [[nodiscard]] std::size_t own_length(std::size_t first_turn, std::size_t end_turn) const {
        return std::accumulate(own.begin() + static_cast<std::ptrdiff_t>(starts[first_turn]),
                               own.begin() + static_cast<std::ptrdiff_t>(starts[end_turn]),
                               std::size_t{0});
    }
};

class ShortMessages {
  public:
    // Handles the messages of at most `longest` bytes.
    ShortMessages(const Hierarchy& all, std::span<const ConstBytes> out, std::span<const Bytes> in,
                  std::size_t longest)
        : all_(all),
          layout_(all.layout),
          leads_(all.layout.leads()),
          local_size_(static_cast<std::size_t>(all.layout.local_size())),
          turns_(static_cast<std::size_t>(all.layout.host_count() - 1)),
          out_(out),
          in_(in),
          to_(direction(out, longest, 1)),
          from_(direction(in, longest, -1)) {}

    [[nodiscard]] Done run() {
        TRY(tell_lengths());
        std::size_t most = 0;
        TRY(agree_on_turns(most));
        for (std::size_t turn = 0; turn < turns_; turn += most) {
            const std::size_t end = std::min(turns_, turn + most);
            TRY(run(turn, end));
        }
        return {};
    }

  private:
    // In turn t a node sends to the node t+1 above it, and receives from the one t+1 below it.
    [[nodiscard]] int host_of_turn(std::size_t turn, int sign) const {
        const int distance = static_cast<int>(turn) + 1;
        return wrapped(layout_.own_host + sign * distance, layout_.host_count());
    }

    template <typename Memory>
    [[nodiscard]] Direction direction(std::span<const Memory> messages, std::size_t longest,
                                      int sign) const {
        Direction made;
        for (std::size_t turn = 0; turn < turns_; ++turn) {
            for (const int member : layout_.of_host(host_of_turn(turn, sign))) {
                const std::size_t bytes = messages[static_cast<std::size_t>(member)].size();
                made.members.push_back(member);
                made.own.push_back(bytes <= longest ? static_cast<Length>(bytes) : 0);
            }
            made.starts.push_back(made.members.size());
        }
        return made;
    }

    [[nodiscard]] Done tell_lengths() {
        for (Direction* way : {&to_, &from_}) {
            if (leads_) way->all.resize(local_size_ * way->members.size());
            const auto own = std::as_bytes(std::span(way->own));
            const auto by_local_rank =
                cut_by_local_rank(std::as_writable_bytes(std::span(way->all)),
                                  [&](std::size_t) { return own.size(); });
            TRY(gather(own, by_local_rank));
        }
        return {};
    }

    // Agrees on the number of turns for which the leader has memory at once. Short blocks are
    // waited for together.
    [[nodiscard]] Done agree_on_turns(std::size_t& most) {
        constexpr std::size_t most_blocks = 64;
        std::size_t longest = 1;
        for (std::size_t turn = 0; leads_ && turn < turns_; ++turn)
            longest = std::max({longest, block_length(to_, turn), block_length(from_, turn)});
        most = std::clamp<std::size_t>(all_.share_bytes / longest, 1, most_blocks);
        if (leads_) TRY(choose_algorithm(longest));
        if (algorithm_ != nullptr) most = turns_;
        return all_.stage.broadcast(all_.turn, std::as_writable_bytes(std::span(&most, 1)), leader);
    }

    // Decides whether blocks are sent through the leaders of other nodes, all turns at once.
    [[nodiscard]] Done choose_algorithm(std::size_t own_longest) {
        if (!all_.choose<Alltoall>(0).sends_through_others) return {};
        block_lengths_ = TRY(agree_on_lengths(
            all_.across, {.longest = own_longest,
                          .most_in_all = std::max(sum_of_blocks(to_), sum_of_blocks(from_))}));
        const std::size_t bytes = block_lengths_.longest * (turns_ + 1);
        const auto& algorithm = all_.choose<Alltoall>(bytes);
        const bool has_memory = bytes <= all_.share_bytes;
        const bool is_dense = !block_lengths_.most_are_shorter(turns_ + 1);
        if (algorithm.sends_through_others && has_memory && is_dense) algorithm_ = &algorithm;
        return {};
    }

    [[nodiscard]] std::size_t sum_of_blocks(const Direction& way) const {
        return std::accumulate(way.all.begin(), way.all.end(), std::size_t{0});
    }

    [[nodiscard]] std::size_t block_length(const Direction& way, std::size_t turn) const {
        std::size_t bytes = 0;
        for (std::size_t local_rank = 0; local_rank < local_size_; ++local_rank)
            bytes += way.length(local_rank, turn, turn + 1);
        return bytes;
    }

    [[nodiscard]] Done run(std::size_t first, std::size_t end) {
        std::size_t to_bytes = 0;
        std::size_t from_bytes = 0;
        for (std::size_t local_rank = 0; leads_ && local_rank < local_size_; ++local_rank) {
            to_bytes += to_.length(local_rank, first, end);
            from_bytes += from_.length(local_rank, first, end);
        }
        const auto [own_out, own_in, by_rank, out_blocks, in_blocks] =
            take_areas(all_.scratch, {to_.own_length(first, end), from_.own_length(first, end),
                                      std::max(to_bytes, from_bytes), to_bytes, from_bytes});
        pack(own_out.data(), first, end);
        const auto sent_by = [&](std::size_t local_rank) {
            return to_.length(local_rank, first, end);
        };
        TRY(gather(own_out, cut_by_local_rank(by_rank, sent_by)));
        if (leads_) {
            make_blocks(by_rank.data(), out_blocks.data(), first, end);
            TRY(exchange(out_blocks, in_blocks, first, end));
            take_blocks_apart(in_blocks.data(), by_rank.data(), first, end);
        }
        const auto sent_to = [&](std::size_t local_rank) {
            return from_.length(local_rank, first, end);
        };
        TRY(scatter(own_in, cut_by_local_rank(by_rank, sent_to)));
        unpack(own_in.data(), first, end);
        return {};
    }

    void pack(std::byte* packed, std::size_t first, std::size_t end) const {
        for (std::size_t index = to_.starts[first]; index < to_.starts[end]; ++index) {
            const std::size_t bytes = to_.own[index];
            if (bytes == 0) continue;
            std::memcpy(packed, out_[static_cast<std::size_t>(to_.members[index])].data(), bytes);
            packed += bytes;
        }
    }

    void unpack(const std::byte* packed, std::size_t first, std::size_t end) const {
        for (std::size_t index = from_.starts[first]; index < from_.starts[end]; ++index) {
            const std::size_t bytes = from_.own[index];
            if (bytes == 0) continue;
            std::memcpy(in_[static_cast<std::size_t>(from_.members[index])].data(), packed, bytes);
            packed += bytes;
        }
    }

    // Copies from the order (rank, turn) to the order (turn, rank). A rank's messages of one turn
    // stay side by side.
    void make_blocks(const std::byte* by_rank, std::byte* blocks, std::size_t first,
                     std::size_t end) const {
        std::vector<const std::byte*> next;  // by local_rank
        for (std::size_t local_rank = 0; local_rank < local_size_; ++local_rank) {
            next.push_back(by_rank);
            by_rank += to_.length(local_rank, first, end);
        }
        for (std::size_t turn = first; turn < end; ++turn) {
            for (std::size_t local_rank = 0; local_rank < local_size_; ++local_rank) {
                const std::size_t bytes = to_.length(local_rank, turn, turn + 1);
                if (bytes != 0) std::memcpy(blocks, next[local_rank], bytes);
                next[local_rank] += bytes;
                blocks += bytes;
            }
        }
    }

    // Copies from the order (turn, sender, rank) to the order (rank, turn, sender).
    void take_blocks_apart(const std::byte* blocks, std::byte* by_rank, std::size_t first,
                           std::size_t end) const {
        std::vector<std::byte*> next;  // by local_rank
        for (std::size_t local_rank = 0; local_rank < local_size_; ++local_rank) {
            next.push_back(by_rank);
            by_rank += from_.length(local_rank, first, end);
        }
        for (std::size_t index = from_.starts[first]; index < from_.starts[end]; ++index) {
            for (std::size_t local_rank = 0; local_rank < local_size_; ++local_rank) {
                const std::size_t bytes = from_.length(local_rank, index);
                if (bytes != 0) std::memcpy(next[local_rank], blocks, bytes);
                next[local_rank] += bytes;
                blocks += bytes;
            }
        }
    }

    [[nodiscard]] Done exchange(ConstBytes out, Bytes in, std::size_t first, std::size_t end) {
        return algorithm_ == nullptr ? exchange_directly(out, in, first, end)
                                     : exchange_through_others(out, in);
    }

    [[nodiscard]] Done exchange_through_others(ConstBytes out, Bytes in) {
        std::vector<ConstBytes> to(turns_ + 1);  // by host
        std::vector<Bytes> from(turns_ + 1);
        for (std::size_t turn = 0; turn < turns_; ++turn) {
            const std::size_t sent = block_length(to_, turn);
            const std::size_t received = block_length(from_, turn);
            to[static_cast<std::size_t>(host_of_turn(turn, 1))] = out.first(sent);
            from[static_cast<std::size_t>(host_of_turn(turn, -1))] = in.first(received);
            out = out.subspan(sent);
            in = in.subspan(received);
        }
        return algorithm_->run(all_.across, to, from, block_lengths_);
    }

    // Exchanges all blocks of these turns, which are in flight at once.
    [[nodiscard]] Done exchange_directly(ConstBytes out, Bytes in, std::size_t first,
                                         std::size_t end) {
        std::vector<Conversation::Pending> pending;
        for (std::size_t turn = first; turn < end; ++turn) {
            const std::size_t bytes = block_length(from_, turn);
            pending.push_back(TRY(all_.across.receive(
                host_of_turn(turn, -1), static_cast<std::uint32_t>(turn), in.first(bytes))));
            in = in.subspan(bytes);
        }
        for (std::size_t turn = first; turn < end; ++turn) {
            const std::size_t bytes = block_length(to_, turn);
            pending.push_back(TRY(all_.across.send(
                host_of_turn(turn, 1), static_cast<std::uint32_t>(turn), out.first(bytes))));
            out = out.subspan(bytes);
        }
        return all_.across.wait_all(pending);
    }

    // Cuts the leader's memory into one part after the other for each rank; the others have none.
    template <typename LengthOf>
    [[nodiscard]] std::vector<Bytes> cut_by_local_rank(Bytes memory, LengthOf length_of) const {
        std::vector<Bytes> parts(local_size_);
        for (std::size_t local_rank = 0; leads_ && local_rank < local_size_; ++local_rank) {
            parts[local_rank] = memory.first(length_of(local_rank));
            memory = memory.subspan(parts[local_rank].size());
        }
        return parts;
    }

    // Moves what each rank has to the leader's part for it.
    [[nodiscard]] Done gather(ConstBytes own, std::span<const Bytes> parts) const {
        std::vector<ConstBytes> out(local_size_);
        out[leader] = own;
        return all_.stage.alltoall(all_.turn, out, parts);
    }

    // Moves the leader's part for each rank to that rank.
    [[nodiscard]] Done scatter(Bytes own, const std::vector<Bytes>& parts) const {
        std::vector<Bytes> in(local_size_);
        in[leader] = own;
        const std::vector<ConstBytes> out(parts.begin(), parts.end());
        return all_.stage.alltoall(all_.turn, out, in);
    }

    static constexpr int leader = 0;

    const Hierarchy& all_;
    const Layout& layout_;
    bool leads_;
    std::size_t local_size_;
    std::size_t turns_;
    std::span<const ConstBytes> out_;
    std::span<const Bytes> in_;
    Direction to_;
    Direction from_;
    const Algorithm<Alltoall>* algorithm_ = nullptr;  // on a leader, if not directly
    MessageLengths block_lengths_;                    // only with an algorithm
};

template <typename Memory>
std::vector<Memory> of_node(const Layout& layout, std::span<const Memory> messages) {
    std::vector<Memory> list;
    for (const int member : layout.local())
        list.push_back(messages[static_cast<std::size_t>(member)]);
    return list;
}

// Returns the messages that go directly from rank to rank, with the others empty.
template <typename Memory>
std::vector<Memory> long_ones(const Layout& layout, std::span<const Memory> messages,
                              std::size_t longest_short) {
    std::vector<Memory> list(messages.size());
    for (std::size_t member = 0; member < messages.size(); ++member) {
        const bool near = layout.hosts[member] == layout.own_host;
        if (!near && messages[member].size() > longest_short) list[member] = messages[member];
    }
    return list;
}

}  // namespace

Done alltoall_by_leaders(const Hierarchy& all, Conversation& everyone,
                         std::span<const ConstBytes> out, std::span<const Bytes> in) {
    const Layout& layout = all.layout;
    TRY(all.stage.alltoall(all.turn, of_node(layout, out), of_node(layout, in)));
    const std::size_t longest = all.selection.longest_joined_message(layout.most_local_ranks);
    if (longest != 0) TRY(ShortMessages(all, out, in, longest).run());
    return alltoall_pairwise(everyone, long_ones(layout, out, longest),
                             long_ones(layout, in, longest), {});
}

}  // namespace mpi_bridge
