// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "reduce/reduction.hpp"
#include "shm/even_slice.hpp"
#include "shm/heap.hpp"
#include "shm/rendezvous.hpp"
#include "shm/segment.hpp"
#include "shm/stage_cut.hpp"

namespace mpi_bridge {

// Collective operations among ranks of one node, through memory that they share.
//
// Three ways, chosen by the length of the data and the same on all ranks:
//   flat     short data: each rank shows all of its data to all, and each reduces everything, in
//            the order of ranks. One exchange of flags.
//   staged   long data in private memory: cut into pieces, copied to shared memory that is kept
//            from call to call, each rank reducing its share of every piece.
//   direct   long data that is in the shared heaps of all ranks: each rank reduces its share from
//            everybody's buffers into everybody's buffers. Nothing is copied.
// All give the same bits on every rank and in every run: every result is reduced by one rank, or by
// all in the same way, from all ranks' data in the order of ranks.
//
// One call at a time, the same sequence of calls with the same arguments on all ranks. The first
// call also waits for all ranks to attach. Buffers may be anywhere, aligned or not, and of any
// length, zero included; nothing is allocated in a call.
//
// Failures are MPIB_ERROR_TIMEOUT (a rank did not come within the turn's patience),
// MPIB_ERROR_PEER_LOST (its process is gone; noticed within a second), and MPIB_ERROR_MISMATCH (it
// makes another call), with a text that names the ranks and the step. The first failure of any rank
// ends the stage: calls of all ranks, those in progress too, fail with the same status and say who
// failed first. After a failure other ranks may still be writing to buffers in the shared heap.
class NodeStage {
  public:
    static constexpr int most_ranks = shm::most_ranks;

    struct Options {
        int rank = 0;                // among the ranks of this node that take part
        int size = 1;                // 1 to most_ranks
        Seconds patience{300};       // for all ranks to attach, in the first call
        SharedHeap* heap = nullptr;  // this process's, if any; must outlive the stage
        // What rank 0 may set; 0 means the measured default for that many ranks.
        std::size_t flat_bytes = 0;   // longest data that is exchanged flat
        std::size_t piece_bytes = 0;  // of a staged transfer: one rank's share of a piece
    };

    // Rank 0 of the node makes the stage, and the others attach with its ticket, a small blob of
    // fixed length. Failing to attach means that the rank is not on this node, or does not share
    // its memory with it. A lack of shared memory is MPIB_ERROR_INTERNAL.
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> create(Options options);
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> attach(
        Options options, std::span<const std::byte> ticket);
    // For ranks that are threads of one process: they must share one mapping of the segment.
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> join(Options options,
                                                                  const NodeStage& creator);
    [[nodiscard]] std::vector<std::byte> ticket() const;

    // Removes the segment's name. By rank 0, once every rank has attached; the first call does it
    // too.
    void all_attached() { segment_->unlink(); }

    using Turn = shm::Turn;

    // recv = op over all ranks of send, divided by the number of ranks for AVERAGE. In place:
    // send == recv.
    [[nodiscard]] Done allreduce(const Turn& turn, const Reduction& reduction,
                                 const std::byte* send, std::byte* recv, std::size_t count);

    // The pieces of a collective over several nodes. Results are accumulators (reduction.hpp),
    // which store() has not finished yet.

    // accumulators = op over all ranks of the slice even_slice(count, size, rank) of send.
    [[nodiscard]] Done reduce_scatter(const Turn& turn, const Reduction& reduction,
                                      const std::byte* send, std::byte* accumulators,
                                      std::size_t count);
    // accumulators = op over all ranks of send, on the root; unused on others.
    [[nodiscard]] Done reduce(const Turn& turn, const Reduction& reduction, const std::byte* send,
                              std::byte* accumulators, std::size_t count, int root);
    // data = the root's data.
    [[nodiscard]] Done broadcast(const Turn& turn, std::span<std::byte> data, int root);
    // parts[r] = rank r's parts[r]. Lengths may differ between parts, but not between ranks.
    [[nodiscard]] Done allgather(const Turn& turn, std::span<const std::span<std::byte>> parts);
    [[nodiscard]] Done barrier(const Turn& turn);

    // Makes this and every further call of all ranks fail, because this rank cannot go on. The
    // others' status is MPIB_ERROR_PEER_LOST. Any thread.
    void abandon(std::string_view reason = "it failed outside of shared memory");

    [[nodiscard]] int rank() const { return meeting_.rank(); }
    [[nodiscard]] int size() const { return meeting_.size(); }
    // Why the direct way is closed, for the log; "" when it is open, or before the first call.
    [[nodiscard]] const std::string& why_not_direct() const { return why_not_direct_; }

  private:
    NodeStage(std::shared_ptr<Segment> segment, const shm::Layout& layout, const Options& options);
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> attach(
        const Options& options, std::shared_ptr<Segment> segment);
    [[nodiscard]] Done move_in();

    enum class Kind : std::uint8_t {
        introduction,
        allreduce,
        reduce_scatter,
        reduce,
        broadcast,
        allgather,
        barrier
    };
    // What all ranks must agree in, besides what the caller says.
    [[nodiscard]] static std::uint64_t digest(const Turn& turn, Kind kind, std::uint64_t length,
                                              std::uint64_t detail = 0);

    // Before everything else in a call.
    [[nodiscard]] Done begin(const Turn& turn);
    [[nodiscard]] Done introduce();
    [[nodiscard]] Done map_heaps();

    // Meets, with this rank's data put on its bench by fill() before, if its buffers are private.
    // Afterwards `direct` tells that all ranks' buffers are in shared heaps; shown_[r] is rank r's
    // source then. Else all ranks' data is on their benches and may be read.
    template <typename Fill>
    [[nodiscard]] Done meet(std::uint64_t agreement, const shm::Whereabouts& own, Fill fill,
                            bool& direct);
    [[nodiscard]] shm::Whereabouts locate(const void* source, std::size_t source_bytes,
                                          const void* target, std::size_t target_bytes) const;
    [[nodiscard]] shm::Whereabouts whereabouts(int rank) const;

    // The flat exchange: afterwards shown_[r] is where rank r's data is. No rank shows more than
    // `longest` bytes, the same number on all ranks.
    [[nodiscard]] Done show(std::uint64_t agreement, std::span<const std::byte> data,
                            std::size_t longest, const shm::Whereabouts& own, bool& direct);
    [[nodiscard]] bool is_flat(std::size_t bytes) const {
        return bytes <= meeting_.layout().measures().flat_bytes;
    }

    // The staged exchange: this rank's parts of a round's pieces put on its bench for their ranks,
    // and the sources of its own piece, put there in step `step`, as block_. `data` is the whole
    // vector.
    void put_pieces(const shm::StageCut& cut, std::size_t round, const std::byte* data,
                    std::size_t element_bytes);
    [[nodiscard]] Slice find_pieces(const shm::StageCut& cut, std::size_t round, std::uint32_t step,
                                    const std::byte* data, std::size_t element_bytes);
    // The sources of a slice, in the direct way: block_ = shown_ + offset.
    void find_block(std::size_t offset_bytes);
    // Moves block_ on.
    void move_block(std::size_t bytes);

    [[nodiscard]] Done allreduce_direct(const Reduction& reduction, std::size_t count);
    [[nodiscard]] Done allreduce_staged(const Reduction& reduction, const shm::StageCut& cut,
                                        const std::byte* send, std::byte* recv);
    [[nodiscard]] Done reduce_staged(const Reduction& reduction, const shm::StageCut& cut,
                                     const std::byte* send, std::byte* accumulators, int root);

    std::shared_ptr<Segment> segment_;
    shm::Rendezvous meeting_;
    SharedHeap* heap_;
    Seconds patience_;
    bool introduced_ = false;
    bool direct_is_open_ = false;
    std::string why_not_direct_;
    std::vector<PeerHeap> heaps_;          // by rank, when the direct way is open
    std::vector<const std::byte*> shown_;  // by rank: where the data of a call is
    std::vector<const void*> block_;       // by rank: the sources of a part of a reduction
};

template <typename Fill>
Done NodeStage::meet(std::uint64_t agreement, const shm::Whereabouts& own, Fill fill,
                     bool& direct) {
    const bool shared = own.all_shared();
    if (!shared) fill();
    auto met = meeting_.meet(agreement, std::as_bytes(std::span(&own, 1)));
    if (!met) return met;
    int sharing = 0;
    if (direct_is_open_) {
        for (int peer = 0; peer < size(); ++peer)
            sharing += whereabouts(peer).all_shared() ? 1 : 0;
    }
    direct = sharing == size();
    if (direct) {
        for (int peer = 0; peer < size(); ++peer) {
            const auto place = static_cast<std::size_t>(peer);
            shown_[place] = heaps_[place].at(whereabouts(peer).source);
        }
        return {};
    }
    if (sharing == 0) {
        meeting_.count_meeting();
        return {};
    }
    // Those who hoped in vain for the direct way follow.
    if (shared) fill();
    meeting_.advance();
    return meeting_.await_all();
}

}  // namespace mpi_bridge
