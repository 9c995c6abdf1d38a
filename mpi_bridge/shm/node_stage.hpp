// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/waits.hpp"
#include "reduce/reduction.hpp"
#include "shm/copy.hpp"
#include "shm/even_slice.hpp"
#include "shm/heap.hpp"
#include "shm/rendezvous.hpp"
#include "shm/segment.hpp"
#include "shm/stage_cut.hpp"

// Collectives among the ranks of a node, through shared memory, and that memory.
//
//   node_stage.hpp          the stage: how it is set up, and what all its collectives need
//   node_allgather.cpp      allgather, and the barrier
//   node_allreduce.cpp      allreduce
//   node_alltoall.cpp       alltoall, which is also a gather and a scatter
//   node_broadcast.cpp      broadcast
//   node_reduce.cpp         reduce and reduce-scatter, to partial results
//   rendezvous.hpp          how the ranks keep in step
//   layout.hpp              the contents of the segment that the ranks share
//   stage_cut.hpp           cuts a vector into slices and pieces, for a transfer in rounds
//   even_slice.hpp          cuts items into parts of nearly equal length
//   copy.hpp                copies through the caches or past them
//   take_over.hpp           copies out of a staging buffer so that the next write there costs less
//   usable_cpus.hpp         whether the ranks have to share processors
//   futex.hpp               sleeps on a word of shared memory
//
//   segment.hpp             a shared memory object, which all ranks of the node attach
//   abandoned_segments.hpp  removes the names of segments whose creators have died
//   heap.hpp                memory of one process that the others of its node can map
//   memory_file.hpp         a file of memory without a name, which other processes can open
//   own_heap.hpp            the heap of this process, made when it is first needed
//   file_space.hpp          backs a file with memory before it is used
//   nonce.hpp               a random number by which an object is recognised
namespace mpi_bridge {

// Collective operations among ranks of one node, through memory that they share.
//
// There are three methods. The length and the place of the data decide which one is used, and all
// ranks use the same one:
//   flat     short data: each rank shows all of its data to all ranks, and each rank reduces
//            everything, in the order of ranks. This takes one exchange of flags.
//   staged   long data in private memory: it is cut into pieces and copied to shared memory that is
//            kept from call to call, and each rank reduces its share of every piece.
//   direct   long data that is in the shared heaps of all ranks: each rank reduces its share from
//            all ranks' buffers into all ranks' buffers. Nothing is copied.
// All methods give the same bits on every rank and in every run: every result is reduced by one
// rank, or by all ranks in the same way, from all ranks' data in the order of ranks.
//
// One call runs at a time, and all ranks must make the same sequence of calls with the same
// arguments. The first call also waits for all ranks to attach. Buffers may be anywhere, aligned or
// not, and of any length, zero included. Nothing is allocated in a call.
//
// Failures are MPIB_ERROR_TIMEOUT (a rank did not come within the turn's patience),
// MPIB_ERROR_PEER_LOST (its process is gone, which is noticed within a second) and
// MPIB_ERROR_MISMATCH (it makes another call), with a text that names the ranks and the step. The
// first failure of any rank ends the stage: the calls of all ranks, including those in progress,
// fail with the same status and say which rank failed first. After a failure other ranks may still
// be writing to buffers in the shared heap.
class NodeStage {
  public:
    static constexpr int most_ranks = shm::most_ranks;

    struct Options {
        int rank = 0;                 // among the ranks of this node that take part
        int size = 1;                 // 1 to most_ranks
        Seconds patience = no_limit;  // limit for all ranks to attach, in the first call
        SharedHeap* heap = nullptr;   // this process's, if any; must outlive the stage
        std::vector<int> ranks;       // of the job, in the order of `rank`; empty: not known
        Waits* waits = nullptr;       // where threads record their waits, or nullptr
        Waits::Lane lane = Waits::Lane::direct;
        // Called in the first collective: whether this rank shares processors with others here.
        std::function<void(bool)> on_crowded{};
        // Settings of rank 0; 0 means the measured default for that many ranks.
        std::size_t flat_bytes = 0;   // longest data that is exchanged flat
        std::size_t piece_bytes = 0;  // of a staged transfer: one rank's share of a piece
    };

    // Rank 0 of the node makes the stage, and the others attach with its ticket, a small block of
    // bytes of fixed length. A failure to attach means that the rank is not on this node or does
    // not share its memory. A lack of shared memory is MPIB_ERROR_INTERNAL.
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> create(const Options& options);
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> attach(
        const Options& options, std::span<const std::byte> ticket);
    // For ranks that are threads of one process: they must share one mapping of the segment.
    [[nodiscard]] static Outcome<std::unique_ptr<NodeStage>> join(const Options& options,
                                                                  const NodeStage& creator);
    [[nodiscard]] std::vector<std::byte> ticket() const;

    // Removes the segment's name. Rank 0 may call this once every rank has attached; otherwise the
    // first collective call removes the name.
    void all_attached() { segment_->unlink(); }

    using Turn = shm::Turn;

    // Computes recv = op over all ranks of send, divided by the number of ranks for AVERAGE. In
    // place: send == recv.
    [[nodiscard]] Done allreduce(const Turn& turn, const Reduction& reduction,
                                 const std::byte* send, std::byte* recv, std::size_t count);

    // The parts of a collective over several nodes. Their results are accumulators (reduction.hpp),
    // which store() has not converted yet.

    // Computes accumulators = op over all ranks of this rank's part of send. send has counts[r]
    // elements for rank r, in the order of ranks.
    [[nodiscard]] Done reduce_scatter(const Turn& turn, const Reduction& reduction,
                                      const std::byte* send, std::byte* accumulators,
                                      std::span<const std::size_t> counts);
    // Computes accumulators = op over all ranks of send, on the root; unused on other ranks.
    [[nodiscard]] Done reduce(const Turn& turn, const Reduction& reduction, const std::byte* send,
                              std::byte* accumulators, std::size_t count, int root);
    // Copies the root's data into every other rank's data.
    [[nodiscard]] Done broadcast(const Turn& turn, std::span<std::byte> data, int root);
    // Copies rank r's parts[r] into parts[r] of every rank. Lengths may differ between parts, but
    // not between ranks.
    [[nodiscard]] Done allgather(const Turn& turn, std::span<const std::span<std::byte>> parts);
    // Sends out[r] to rank r and receives in[r] from rank r. Only these two ranks know the length;
    // if they disagree, the call fails with MPIB_ERROR_MISMATCH. This serves as a gather or a
    // scatter where all other parts are empty.
    [[nodiscard]] Done alltoall(const Turn& turn, std::span<const std::span<const std::byte>> out,
                                std::span<const std::span<std::byte>> in);
    [[nodiscard]] Done barrier(const Turn& turn);

    // Makes this and every further call of all ranks fail, because this rank cannot go on. The
    // status on the other ranks is MPIB_ERROR_PEER_LOST. Any thread may call.
    void abandon(std::string_view reason = "it failed outside of shared memory");

    [[nodiscard]] int rank() const { return meeting_.rank(); }
    [[nodiscard]] int size() const { return meeting_.size(); }
    // Why the direct method is not available, for the log; "" if it is, or before the first call.
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
        alltoall,
        barrier
    };
    // A digest of what all ranks must agree on, in addition to the caller's agreement.
    [[nodiscard]] static std::uint64_t digest(const Turn& turn, Kind kind, std::uint64_t length,
                                              std::uint64_t detail = 0);

    // Must come before everything else in a call.
    [[nodiscard]] Done begin(const Turn& turn);
    [[nodiscard]] Done introduce();
    [[nodiscard]] Done map_heaps();

    // Calls meeting_.meet(). If this rank's buffers are private, fill() first puts its data on its
    // staging buffer. Afterwards `direct` says whether all ranks' buffers are in shared heaps; if
    // so, shown_[r] is rank r's source. Otherwise all ranks' data is in their staging buffers and
    // may be read.
    template <typename Fill>
    [[nodiscard]] Done meet(std::uint64_t agreement, const shm::Location& own, Fill fill,
                            bool& direct);
    [[nodiscard]] shm::Location locate(const void* source, std::size_t source_bytes,
                                       const void* target, std::size_t target_bytes) const;
    [[nodiscard]] shm::Location location(int rank) const;

    // The flat exchange: afterwards shown_[r] is where rank r's data is. No rank shows more than
    // `longest` bytes, which is the same number on all ranks.
    [[nodiscard]] Done show(std::uint64_t agreement, std::span<const std::byte> data,
                            std::size_t longest, const shm::Location& own, bool& direct);
    [[nodiscard]] bool is_flat(std::size_t bytes) const {
        return bytes <= meeting_.layout().measures().flat_bytes;
    }

    // The staged exchange. put_pieces() puts this rank's parts of a round's pieces in its staging
    // buffer, for the ranks that reduce them. find_pieces() sets block_ to the sources of this
    // rank's own piece, which were put in the staging buffers in step `step`. `data` is the whole
    // vector, and `place` one_way or answered: whether the rank that reduces a piece overwrites it
    // with the results.
    using Place = std::byte* (shm::Layout::*)(int from, int to, std::uint32_t step) const;
    static constexpr Place one_way = &shm::Layout::piece_in_turn;
    static constexpr Place answered = &shm::Layout::piece;
    void put_pieces(const shm::StageCut& cut, std::size_t round, const std::byte* data,
                    std::size_t element_bytes, Place place);
    [[nodiscard]] Slice find_pieces(const shm::StageCut& cut, std::size_t round, std::uint32_t step,
                                    const std::byte* data, std::size_t element_bytes, Place place);
    // What all other ranks read: put_for_all() puts at most longest_put() bytes on this rank's
    // staging buffer, and take_from() copies what a rank put in step `step`. Among a few ranks each
    // gets a copy of its own, which it overwrites if `place` is answered.
    [[nodiscard]] std::size_t longest_put() const;
    void put_for_all(std::span<const std::byte> data, Place place);
    void take_from(int peer, std::uint32_t step, std::span<std::byte> data, Place place,
                   shm::Copy* copy) const;
    [[nodiscard]] bool copies_for_each() const { return size() <= most_copies; }
    static constexpr int most_copies = 4;  // measured with 2 and 4 ranks on two processors

    // Sets block_ to the sources of a slice in shown_: block_ = shown_ + offset.
    void find_block(std::size_t offset_bytes);
    // Advances block_.
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
    std::function<void(bool)> on_crowded_;
    bool introduced_ = false;
    bool direct_is_open_ = false;
    std::string why_not_direct_;
    std::vector<PeerHeap> heaps_;          // by rank, when the direct method is available
    std::vector<const std::byte*> shown_;  // by rank: where the data of a call is
    std::vector<const void*> block_;       // by rank: the sources of a part of a reduction
    std::vector<std::size_t> starts_;      // by rank: where its part of a reduce-scatter starts
};

template <typename Fill>
Done NodeStage::meet(std::uint64_t agreement, const shm::Location& own, Fill fill, bool& direct) {
    const bool shared = own.all_shared();
    if (!shared) fill();
    TRY(meeting_.meet(agreement, std::as_bytes(std::span(&own, 1))));
    int sharing = 0;
    if (direct_is_open_) {
        for (int peer = 0; peer < size(); ++peer)
            sharing += location(peer).all_shared() ? 1 : 0;
    }
    direct = sharing == size();
    if (direct) {
        for (int peer = 0; peer < size(); ++peer) {
            const auto place = static_cast<std::size_t>(peer);
            shown_[place] = heaps_[place].at(location(peer).source);
        }
        return {};
    }
    if (sharing == 0) {
        meeting_.count_meeting();
        return {};
    }
    // Some ranks have not put their data in their staging buffers yet, because they hoped for the
    // direct method. They do it now.
    if (shared) fill();
    meeting_.advance();
    return meeting_.await_all();
}

}  // namespace mpi_bridge
