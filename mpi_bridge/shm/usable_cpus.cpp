// SPDX-License-Identifier: Apache-2.0
#include "shm/usable_cpus.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <string>

#include <sched.h>

namespace mpi_bridge {
namespace {

std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// The process's group in the unified hierarchy of version 2: the line "0::/path".
std::string control_group() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("0::")) return line.substr(3);
    }
    return {};
}

}  // namespace

int CpuSet::count() const {
    int total = 0;
    for (const std::uint64_t word : bits)
        total += std::popcount(word);
    return total;
}

bool CpuSet::contains(const CpuSet& other) const {
    for (std::size_t i = 0; i < bits.size(); ++i) {
        if ((other.bits[i] & ~bits[i]) != 0) return false;
    }
    return true;
}

void CpuSet::add(const CpuSet& other) {
    for (std::size_t i = 0; i < bits.size(); ++i)
        bits[i] |= other.bits[i];
}

CpuSet usable_cpus() {
    CpuSet set{};
    cpu_set_t* mask = CPU_ALLOC(64 * set.bits.size());
    const std::size_t bytes = CPU_ALLOC_SIZE(64 * set.bits.size());
    if (mask == nullptr) return set;
    CPU_ZERO_S(bytes, mask);
    if (::sched_getaffinity(0, bytes, mask) == 0) {
        for (std::size_t cpu = 0; cpu < 64 * set.bits.size(); ++cpu) {
            if (CPU_ISSET_S(cpu, bytes, mask)) set.bits[cpu / 64] |= std::uint64_t{1} << (cpu % 64);
        }
    }
    CPU_FREE(mask);
    return set;
}

std::optional<int> parse_cpu_max(std::string_view text) {
    std::uint64_t quota = 0;
    std::uint64_t period = 0;
    const char* end = text.data() + text.size();
    const auto [after_quota, bad_quota] = std::from_chars(text.data(), end, quota);
    if (bad_quota != std::errc{} || after_quota == end) return {};  // "max 100000": no quota
    const auto [after_period, bad_period] = std::from_chars(after_quota + 1, end, period);
    if (bad_period != std::errc{} || period == 0) return {};
    return static_cast<int>(std::clamp<std::uint64_t>(quota / period, 1, 1 << 20));
}

std::optional<int> cpu_quota() {
    std::optional<int> least;
    for (std::string group = control_group(); group.size() > 1;
         group.resize(group.find_last_of('/'))) {
        const auto quota = parse_cpu_max(first_line("/sys/fs/cgroup" + group + "/cpu.max"));
        if (quota) least = std::min(least.value_or(*quota), *quota);
    }
    return least;
}

bool is_crowded(const CpuSet& own, std::span<const CpuSet> everyone, std::optional<int> quota) {
    CpuSet all{};
    int confined = 0;  // ranks that can only run where this one can
    for (const CpuSet& set : everyone) {
        all.add(set);
        if (own.contains(set)) ++confined;
    }
    const int ranks = static_cast<int>(everyone.size());
    return ranks > all.count() || confined > own.count() || ranks > quota.value_or(ranks);
}

}  // namespace mpi_bridge
