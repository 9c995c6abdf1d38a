// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/chunks.hpp"
#include "collectives/conversation.hpp"
#include "collectives/reducer.hpp"

// The common part of the ring algorithms.
//
// The ranks form a ring: each sends to the rank above it ("right") and receives from the one below
// it ("left"). The data is cut into one "chunk" per rank, and a chunk into "segments". One message
// is one segment of one chunk.
//
// Every chunk goes around the ring. In step s rank r sends chunk r-1-s and receives chunk r-2-s,
// which it sends in step s+1. Chunk c, which rank c+1 sends first, is back at rank c after step
// n-2, the end of a reduce-scatter. From there, steps n-1 to 2n-3 pass the result around once more:
// the allgather. An algorithm uses the first half, the second half, or both.
//
// Segments flow in `tracks`. Track t handles the segments t, t+tracks, t+2*tracks, … of all chunks.
// Each of them takes a "round" of all steps, and the track starts the next round as soon as it has
// ended one. So every track always has a segment in flight, and a rank reduces one segment while
// others are on the wire; nothing waits until all tracks have completed a step or a round.
namespace mpi_bridge::ring {

constexpr std::size_t tracks = 4;

// Cuts chunks into segments of at most `segment` items.
class Cut {
  public:
    Cut(Chunks chunks, std::size_t segment);

    [[nodiscard]] std::size_t rounds() const { return rounds_; }
    [[nodiscard]] const Chunks& chunks() const { return chunks_; }
    // Length of the longest segment.
    [[nodiscard]] std::size_t longest() const { return longest_; }
    // A length of 0 means that there is no such segment and therefore no message.
    [[nodiscard]] Slice segment(std::size_t round, int chunk, std::size_t track) const;

  private:
    Chunks chunks_;
    std::size_t segment_;
    std::size_t longest_ = 0;
    std::size_t rounds_ = 0;
};

// Cuts chunks of items of that many bytes into suitable segments: short enough that every chunk
// gives all tracks something to do, but not so short that a message does not pay, and no longer
// than is configured.
[[nodiscard]] Cut cut_for(Chunks chunks, std::size_t item_bytes,
                          std::size_t configured_segment_bytes);

// One message.
struct Message {
    std::size_t turn = 0;  // counts the steps over all rounds
    int step = 0;
    std::size_t track = 0;
    int chunk = 0;
    Slice slice;  // never empty
};

// What travels, and what happens to it. A segment that is received in one turn is sent in the next.
class Payload {
  public:
    virtual ~Payload() = default;
    Payload() = default;
    Payload(const Payload&) = delete;
    Payload& operator=(const Payload&) = delete;

    // The memory to send. It must stay unchanged until the receive of turn + 2 is posted.
    [[nodiscard]] virtual ConstBytes outgoing(const Message& message) = 0;
    // The memory to receive into, which is asked for one turn ahead.
    [[nodiscard]] virtual Bytes incoming(const Message& message) = 0;
    // The message has arrived in incoming().
    virtual void arrived(const Message& message) = 0;
};

// Runs steps `first` to `last` for all segments.
struct Steps {
    int first = 0;
    int last = 0;
};
[[nodiscard]] Done flow(Conversation& talk, const Cut& cut, Steps steps, Payload& payload);

// The payload of reductions. Partial results are kept in three slots per track, which are used in
// turn: while one receives, another one sends the segment of the previous turn. Results are stored
// in `recv`, which begins with the value `recv_offset` of the vector, and steps from n-1 on pass
// them around from there. recv may be send.
class Reducing final : public Payload {
  public:
    Reducing(Conversation& talk, const Reducer& reducer, const Cut& cut, const std::byte* send,
             std::byte* recv, std::size_t recv_offset);

    [[nodiscard]] ConstBytes outgoing(const Message& message) override;
    [[nodiscard]] Bytes incoming(const Message& message) override;
    void arrived(const Message& message) override;

  private:
    static constexpr std::size_t slots = 3;

    [[nodiscard]] Bytes slot(std::size_t turn, const Message& message) const;
    [[nodiscard]] Bytes result(Slice slice) const;
    [[nodiscard]] const std::byte* values(Slice slice) const;

    Reducer reducer_;
    int size_;
    const std::byte* send_;
    std::byte* recv_;
    std::size_t recv_offset_;
    bool send_values_directly_;
    std::size_t slot_bytes_;
    Bytes memory_;
};

}  // namespace mpi_bridge::ring
