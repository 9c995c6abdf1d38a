// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

// The memory of a process of mpi_bridge that other processes of the same user can look at
// (core/visible_state.hpp), and how they understand a copy of it. The launcher has this file, too.
namespace mpi_bridge {

// Which ranks the threads of the process wait for; see core/waits.hpp.
struct WaitsTable {
    static constexpr std::int64_t nobody = -1;
    static constexpr std::int64_t unknown = -1;
    static constexpr int lane_bits = 2;

    struct alignas(64) Place {
        std::atomic<std::int64_t> who{nobody};  // rank << lane_bits | lane
        std::atomic<std::uint32_t> serial{0};   // changes when another wait takes this place
        std::atomic<std::int64_t> since{unknown};
    };
    std::array<Place, 64> places;
};

struct VisibleWait {
    int place = 0;
    std::uint32_t serial = 0;
    int rank = 0;
    int lane = 0;  // of Waits::Lane
    std::int64_t since = WaitsTable::unknown;

    bool operator==(const VisibleWait&) const = default;
};
[[nodiscard]] std::vector<VisibleWait> waits_in(const WaitsTable& table);

// The engine's operations that have waited for a while, as lines
//
//     PROCESS_SET KIND SUBMITTED "NAME"
//
// with the time in nanoseconds of CLOCK_MONOTONIC. A rank that has joined shows the kind "join".
// The text is good if `version` is even, and the same before and after it is copied.
struct OperationsTable {
    std::atomic<std::uint32_t> version{0};
    std::uint32_t bytes = 0;
    std::array<char, 16376> text{};
};
// `version_after` was read after the copy.
[[nodiscard]] std::optional<std::string_view> operations_in(const OperationsTable& copy,
                                                            std::uint32_t version_after);

// How long the rank has been in collectives, waiting for other ranks or for data. A rank that
// others wait for has the least. Only added to, in nanoseconds.
struct alignas(64) WaitedTable {
    // In its operations, from the last submission until none is open: what a rank submits in its
    // backward pass is open while it works, and a rank that is a little late would seem never to
    // wait.
    std::atomic<std::uint64_t> engine{0};
    std::atomic<std::uint64_t> calls{0};  // in blocking calls
    // How often they have ended: a rank that comes last may wait for no time at all.
    std::atomic<std::uint64_t> engine_ends{0};
    std::atomic<std::uint64_t> call_ends{0};

    [[nodiscard]] std::uint64_t sum() const {
        return engine.load(std::memory_order_relaxed) + calls.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t ends() const {
        return engine_ends.load(std::memory_order_relaxed) +
               call_ends.load(std::memory_order_relaxed);
    }
};

struct VisibleLayout {
    static constexpr std::string_view file_name = "mpi_bridge-state";
    using Format = std::array<char, 16>;
    // Changes with the layout.
    static constexpr Format this_format{"mpi_bridge 0.3"};

    Format format{this_format};
    std::atomic<std::int32_t> process{0};  // a child that C code has forked has its parent's file
    std::atomic<std::int32_t> rank{-1};
    WaitsTable waits;
    WaitedTable waited;
    OperationsTable operations;
};

}  // namespace mpi_bridge
