// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace standin {

constexpr int most_ranks = 8;
constexpr std::size_t window_bytes = std::size_t{256} << 10;
constexpr std::size_t mail_bytes = std::size_t{64} << 10;

// What a rank is about to do, which must be the same on all.
struct Deed {
    int kind = 0;
    int type = 0;
    int op = 0;
    int root = 0;
    std::uint64_t count = 0;
    bool operator==(const Deed&) const = default;
};

// What the ranks of a communicator share: a file in memory that each of them maps. All zeros at
// first.
struct Segment {
    struct Seat {
        std::atomic<int> process;  // 0: nobody has come yet
        std::atomic<int> gone;     // has aborted, or has taken its leave
        std::atomic<int> finalized;
        std::atomic<std::uint64_t> met;        // how often this rank has come to a meeting
        std::atomic<std::uint64_t> connected;  // the same on the host's side
        std::array<char, 16> uuid;
        std::array<char, 64> host;  // NCCL_HOSTID
        std::array<Deed, 2> deeds;  // of the latest two meetings
    };
    struct Mail {
        std::atomic<std::uint64_t> filled;
        std::atomic<std::uint64_t> emptied;
        std::uint64_t bytes;
        std::array<std::byte, mail_bytes> data;
    };

    std::atomic<int> size;
    std::array<Seat, most_ranks> seats;
    std::array<std::array<std::byte, window_bytes>, most_ranks> windows;
    std::array<std::array<Mail, most_ranks>, most_ranks> mail;  // [from][to]
};

// Makes the file for a new communicator, and returns its path, which is its unique id.
std::string make_segment();
// Null if that is no such file of this user.
Segment* map_segment(const std::string& path);
void unmap_segment(Segment* segment);

}  // namespace standin
