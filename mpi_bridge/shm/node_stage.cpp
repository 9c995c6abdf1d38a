// SPDX-License-Identifier: Apache-2.0
#include "shm/node_stage.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include <fmt/core.h>

#include "core/parts.hpp"
#include "shm/take_over.hpp"

namespace mpi_bridge {
namespace {

// One cache line of items in the widest accumulators, 16 bytes each; see reduce().
constexpr std::size_t least_piece = 1024;

// Measured for f32 sums with the benchmark shm_stage_bench, with 2, 3 and 4 ranks on two
// processors. Two ranks read the same amount with either method, and the flat one saves a wait.
// Among more ranks, each line of a flat area is in several caches, from which its writer must take
// it back. Pieces should be long, but all ranks' staging buffers together must stay in the shared
// cache.
shm::Measures measures_for(const NodeStage::Options& options) {
    const auto ranks = static_cast<std::size_t>(options.size);
    std::size_t flat = options.flat_bytes;
    std::size_t piece = options.piece_bytes;
    if (flat == 0) flat = ranks <= 2 ? 8UL << 10 : 2UL << 10;
    if (piece == 0) piece = std::min(256UL << 10, (512UL << 10) / ranks);
    return {static_cast<std::uint32_t>(ranks),
            static_cast<std::uint32_t>(round_up(flat, shm::cache_line)),
            static_cast<std::uint32_t>(round_up(piece, least_piece))};
}

Done check(const NodeStage::Options& options) {
    if (options.size >= 1 && options.size <= NodeStage::most_ranks && options.rank >= 0 &&
        options.rank < options.size && options.piece_bytes <= (64UL << 20) &&
        options.flat_bytes <= (64UL << 20)) {
        return {};
    }
    return fail(MPIB_ERROR_INVALID_ARGUMENT,
                fmt::format("shared memory: local rank {} of {}: at most {} ranks of a node can "
                            "work together, with pieces of at most 64 MiB",
                            options.rank, options.size, NodeStage::most_ranks));
}

std::uint64_t mix(std::uint64_t seed, std::uint64_t value) {
    // The finaliser of SplitMix64: a change of any input bit changes half of the output bits on
    // average.
    std::uint64_t mixed = seed * 0x9e3779b97f4a7c15U + value;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
}

}  // namespace

NodeStage::NodeStage(std::shared_ptr<Segment> segment, const shm::Layout& layout,
                     const Options& options)
    : segment_(std::move(segment)),
      meeting_(segment_, layout,
               {.rank = options.rank,
                .size = options.size,
                .ranks = options.ranks,
                .waits = options.waits,
                .lane = options.lane}),
      heap_(options.heap),
      patience_(options.patience),
      on_crowded_(options.on_crowded),
      shown_(static_cast<std::size_t>(options.size)),
      block_(static_cast<std::size_t>(options.size)),
      starts_(static_cast<std::size_t>(options.size) + 1) {}

Outcome<std::unique_ptr<NodeStage>> NodeStage::create(const Options& options) {
    TRY(check(options));
    const shm::Measures measures = measures_for(options);
    auto segment = TRY(Segment::create(shm::Layout::bytes(measures)));
    const std::size_t slots_end = shm::Layout::staging_at(measures, 0);
    TRY(segment->reserve(0, slots_end, "the ranks' flags"));

    std::byte* memory = segment->memory();
    const shm::Layout layout(memory, measures);
    new (&layout.common()) shm::Common{};
    layout.common().measures = measures;
    for (int rank = 0; rank < options.size; ++rank)
        new (&layout.slot(rank)) shm::Slot{};
    return attach(options, std::shared_ptr<Segment>(std::move(segment)));
}

Outcome<std::unique_ptr<NodeStage>> NodeStage::attach(const Options& options,
                                                      std::span<const std::byte> ticket) {
    TRY(check(options));
    Segment::Ticket where{};
    if (ticket.size() != sizeof where) {
        return fail(MPIB_ERROR_INTERNAL,
                    fmt::format("shared memory: a ticket of {} bytes where {} were expected; do "
                                "all ranks use the same version of the library?",
                                ticket.size(), sizeof where));
    }
    std::memcpy(&where, ticket.data(), sizeof where);
    auto segment = TRY(Segment::attach(where));
    return attach(options, std::shared_ptr<Segment>(std::move(segment)));
}

Outcome<std::unique_ptr<NodeStage>> NodeStage::join(const Options& options,
                                                    const NodeStage& creator) {
    TRY(check(options));
    return attach(options, creator.segment_);
}

Outcome<std::unique_ptr<NodeStage>> NodeStage::attach(const Options& options,
                                                      std::shared_ptr<Segment> segment) {
    const shm::Measures measures = shm::Layout::common_of(segment->memory()).measures;
    if (measures.ranks != static_cast<std::uint32_t>(options.size)) {
        return fail(MPIB_ERROR_MISMATCH,
                    fmt::format("shared memory: local rank {} counts {} ranks on this node, local "
                                "rank 0 counts {}",
                                options.rank, options.size, measures.ranks));
    }
    const shm::Layout layout(segment->memory(), measures);
    std::unique_ptr<NodeStage> stage(new NodeStage(std::move(segment), layout, options));
    TRY(stage->move_in());
    return stage;
}

Done NodeStage::move_in() {
    const shm::Measures& measures = meeting_.layout().measures();
    TRY(segment_->reserve(shm::Layout::staging_at(measures, rank()), measures.staging_bytes(),
                          "a rank's transfers"));
    return meeting_.attach(heap_ != nullptr ? heap_->ticket() : SharedHeap::Ticket{});
}

std::vector<std::byte> NodeStage::ticket() const {
    const auto bytes = std::as_bytes(std::span(&segment_->ticket(), 1));
    return {bytes.begin(), bytes.end()};
}

void NodeStage::abandon(std::string_view reason) {
    // The failure is this rank's own and is reported where it happened, so it is ignored here.
    static_cast<void>(
        meeting_.break_off({MPIB_ERROR_PEER_LOST, fmt::format("it gave up: {}", reason)}));
}

std::uint64_t NodeStage::digest(const Turn& turn, Kind kind, std::uint64_t length,
                                std::uint64_t detail) {
    return mix(mix(turn.agreement, length), detail << 8 | static_cast<std::uint64_t>(kind));
}

Done NodeStage::begin(const Turn& turn) {
    if (!introduced_) {
        TRY(introduce());
    }
    return meeting_.begin(turn);
}

// The part of the set-up that has to wait until all ranks have attached.
Done NodeStage::introduce() {
    const Turn turn{"introduction of the node's ranks", 0, patience_};
    TRY(meeting_.begin(turn));
    TRY(meeting_.meet(digest(turn, Kind::introduction, 0), {}));
    if (rank() == 0) segment_->unlink();

    std::vector<CpuSet> cpus;
    cpus.reserve(static_cast<std::size_t>(size()));
    for (int peer = 0; peer < size(); ++peer) {
        cpus.push_back(meeting_.layout().slot(peer).identity.cpus);
    }
    const bool crowded = is_crowded(cpus[static_cast<std::size_t>(rank())], cpus, cpu_quota());
    meeting_.set_crowded(crowded);
    if (on_crowded_) on_crowded_(crowded);

    // The direct method is available only if it is available on every rank.
    auto mapped = map_heaps();
    if (!mapped) why_not_direct_ = mapped.error().text;
    const auto vote = static_cast<std::byte>(mapped ? 1 : 0);
    TRY(meeting_.begin(turn));
    TRY(meeting_.meet(digest(turn, Kind::introduction, 1), {&vote, 1}));
    direct_is_open_ = true;
    for (int peer = 0; peer < size(); ++peer) {
        if (meeting_.entry(peer).payload[0] != std::byte{0}) continue;
        direct_is_open_ = false;
        if (why_not_direct_.empty()) {
            why_not_direct_ = fmt::format("local rank {} cannot use the others' heaps", peer);
        }
    }
    if (!direct_is_open_) heaps_.clear();
    introduced_ = true;
    return {};
}

Done NodeStage::map_heaps() {
    heaps_.reserve(static_cast<std::size_t>(size()));
    for (int peer = 0; peer < size(); ++peer) {
        const SharedHeap::Ticket& theirs = meeting_.layout().slot(peer).identity.heap;
        if (theirs.place.process == 0) {
            return fail(MPIB_ERROR_INTERNAL, fmt::format("local rank {} has no shared heap", peer));
        }
        if (heap_ != nullptr && heap_->ticket().nonce == theirs.nonce) {
            heaps_.emplace_back(*heap_);
            continue;
        }
        auto heap = TRY(PeerHeap::map(theirs));
        heaps_.push_back(std::move(heap));
    }
    return {};
}

shm::Location NodeStage::locate(const void* source, std::size_t source_bytes, const void* target,
                                std::size_t target_bytes) const {
    if (!direct_is_open_) return {};
    // An empty range has no place in the heap, so any offset will do.
    const auto from = source_bytes == 0 ? 0 : heap_->find(source, source_bytes);
    const auto to = target_bytes == 0 ? 0 : heap_->find(target, target_bytes);
    if (!from || !to) return {};
    return {*from, *to};
}

shm::Location NodeStage::location(int rank) const {
    shm::Location where;
    std::memcpy(&where, meeting_.entry(rank).payload, sizeof where);
    return where;
}

Done NodeStage::show(std::uint64_t agreement, std::span<const std::byte> data, std::size_t longest,
                     const shm::Location& own, bool& direct) {
    if (longest <= shm::inline_bytes) {
        TRY(meeting_.meet(agreement, data));
        direct = false;
        for (int peer = 0; peer < size(); ++peer) {
            shown_[static_cast<std::size_t>(peer)] =
                peer == rank() ? data.data() : meeting_.entry(peer).payload;
        }
        return {};
    }
    const auto fill = [&] {
        if (!data.empty()) std::memcpy(meeting_.flat_area(rank()), data.data(), data.size());
    };
    auto met = meet(agreement, own, fill, direct);
    if (!met || direct) return met;
    // This rank's own part is taken from where it is, which also leaves the lines of its area to
    // the ranks that read them.
    for (int peer = 0; peer < size(); ++peer) {
        shown_[static_cast<std::size_t>(peer)] =
            peer == rank() ? data.data() : meeting_.flat_area(peer);
    }
    return {};
}

void NodeStage::put_pieces(const shm::StageCut& cut, std::size_t round, const std::byte* data,
                           std::size_t element_bytes, Place place) {
    const shm::Layout& layout = meeting_.layout();
    for (int peer = 0; peer < size(); ++peer) {
        const Slice piece = cut.piece(peer, round);
        // find_pieces() takes this rank's own part from where it is.
        if (peer == rank() || piece.length == 0) continue;
        std::memcpy((layout.*place)(rank(), peer, meeting_.steps()),
                    data + piece.offset * element_bytes, piece.length * element_bytes);
    }
}

Slice NodeStage::find_pieces(const shm::StageCut& cut, std::size_t round, std::uint32_t step,
                             const std::byte* data, std::size_t element_bytes, Place place) {
    const shm::Layout& layout = meeting_.layout();
    const Slice piece = cut.piece(rank(), round);
    for (int peer = 0; peer < size(); ++peer) {
        block_[static_cast<std::size_t>(peer)] = peer == rank()
                                                     ? data + piece.offset * element_bytes
                                                     : (layout.*place)(peer, rank(), step);
    }
    return piece;
}

std::size_t NodeStage::longest_put() const {
    const std::size_t piece = meeting_.layout().measures().piece_bytes;
    return copies_for_each() ? piece
                             : std::min(piece * static_cast<std::size_t>(size()), 256UL << 10);
}

void NodeStage::put_for_all(std::span<const std::byte> data, Place place) {
    const shm::Layout& layout = meeting_.layout();
    if (data.empty()) return;
    if (!copies_for_each()) {
        std::memcpy(layout.half(rank(), meeting_.steps()), data.data(), data.size());
        return;
    }
    for (int peer = 0; peer < size(); ++peer) {
        if (peer != rank())
            std::memcpy((layout.*place)(rank(), peer, meeting_.steps()), data.data(), data.size());
    }
}

void NodeStage::take_from(int peer, std::uint32_t step, std::span<std::byte> data, Place place,
                          shm::Copy* copy) const {
    const shm::Layout& layout = meeting_.layout();
    if (data.empty()) return;
    if (!copies_for_each()) {
        copy(data.data(), layout.half(peer, step), data.size());
        return;
    }
    std::byte* const piece = (layout.*place)(peer, rank(), step);
    if (place == answered)
        shm::copy_and_take_over(data.data(), piece, data.size(), copy);
    else
        copy(data.data(), piece, data.size());
}

void NodeStage::find_block(std::size_t offset_bytes) {
    for (std::size_t peer = 0; peer < block_.size(); ++peer) {
        block_[peer] = shown_[peer] + offset_bytes;
    }
}

void NodeStage::move_block(std::size_t bytes) {
    for (const void*& source : block_)
        source = static_cast<const std::byte*>(source) + bytes;
}

}  // namespace mpi_bridge
