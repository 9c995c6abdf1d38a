// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace mpi_bridge {

// The processors that a process may run on, by the kernel's numbers. Trivially copyable.
struct CpuSet {
    std::array<std::uint64_t, 64> bits;  // 4096 processors

    [[nodiscard]] int count() const;
    [[nodiscard]] bool contains(const CpuSet& other) const;
    void add(const CpuSet& other);
};

// The processors of the calling thread; empty where the kernel does not tell.
[[nodiscard]] CpuSet usable_cpus();

// How many processors' worth of time the process's control groups (version 2) allow it: the
// smallest quota of its group and the groups around it, rounded down, at least 1. nullopt where
// there is no quota.
[[nodiscard]] std::optional<int> cpu_quota();

// The quota that one cpu.max file states ("200000 100000": two processors).
[[nodiscard]] std::optional<int> parse_cpu_max(std::string_view text);

// Whether a process has to share processors with other ranks of the node, so that a waiting rank
// may hold up the very rank that it waits for. `everyone` holds the sets of all ranks.
[[nodiscard]] bool is_crowded(const CpuSet& own, std::span<const CpuSet> everyone,
                              std::optional<int> quota);

}  // namespace mpi_bridge
