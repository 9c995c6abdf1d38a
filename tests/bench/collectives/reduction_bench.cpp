// SPDX-License-Identifier: Apache-2.0
//
// How fast one thread reduces: prints a Markdown table of gigabytes of result per second, for every
// instruction set this processor can run. "combine 2" is elements = elements + other, so its result
// crosses the memory bus twice (read and written) and one source once.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "reduce/datatypes.hpp"
#include "reduce/instruction_sets.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using mpi_bridge::InstructionSet;
using mpi_bridge::Reduction;

constexpr std::size_t sizes[] = {32UL << 10, 256UL << 10, 4UL << 20, 64UL << 20};
constexpr std::size_t most_sources = 4;
constexpr std::chrono::milliseconds shortest_round{3};
constexpr int rounds = 5;

struct FreeMemory {
    void operator()(unsigned char* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<unsigned char, FreeMemory>;

// Page-aligned and touched. Zeros: sums of them stay zero however often they are repeated.
Memory zeros(std::size_t bytes) {
    Memory memory(static_cast<unsigned char*>(std::aligned_alloc(4096, bytes)));
    if (memory == nullptr) throw std::bad_alloc();
    std::memset(memory.get(), 0, bytes);
    return memory;
}

// The best of a few rounds, in seconds per call.
template <typename Call>
double seconds(const Call& call) {
    double best = 1e9;
    for (int round = 0; round < rounds; ++round) {
        int calls = 0;
        const auto start = Clock::now();
        auto now = start;
        for (; now - start < shortest_round; now = Clock::now()) {
            call();
            ++calls;
        }
        best = std::min(best, std::chrono::duration<double>(now - start).count() / calls);
    }
    return best;
}

struct Case {
    mpib_datatype datatype;
    mpib_op op;
    std::size_t sources;  // 0: add() to accumulators
};

constexpr Case cases[] = {
    {MPIB_FLOAT32, MPIB_SUM, 0},  {MPIB_FLOAT32, MPIB_SUM, 2},     {MPIB_FLOAT32, MPIB_SUM, 4},
    {MPIB_FLOAT32, MPIB_MAX, 2},  {MPIB_FLOAT32, MPIB_AVERAGE, 2}, {MPIB_FLOAT64, MPIB_SUM, 2},
    {MPIB_BFLOAT16, MPIB_SUM, 0}, {MPIB_BFLOAT16, MPIB_SUM, 2},    {MPIB_BFLOAT16, MPIB_SUM, 4},
    {MPIB_FLOAT16, MPIB_SUM, 0},  {MPIB_FLOAT16, MPIB_SUM, 2},     {MPIB_FLOAT16, MPIB_SUM, 4},
    {MPIB_INT8, MPIB_SUM, 2},     {MPIB_INT32, MPIB_SUM, 2},       {MPIB_INT32, MPIB_AVERAGE, 2},
    {MPIB_INT64, MPIB_AVERAGE, 2}};

double measure(const Reduction& reduction, const Case& what, std::size_t bytes,
               const std::vector<Memory>& memory) {
    const void* sources[most_sources] = {};
    for (std::size_t s = 0; s < most_sources; ++s)
        sources[s] = memory[s].get();
    unsigned char* out = memory[0].get();
    const std::size_t item =
        what.sources == 0 ? reduction.accumulator_bytes : reduction.element_bytes;
    const std::size_t count = bytes / item;
    const double time = seconds([&] {
        if (what.sources == 0) {
            reduction.add(out, sources[1], count);
        } else {
            reduction.combine(out, sources, what.sources, count, static_cast<int>(what.sources));
        }
    });
    return static_cast<double>(count * item) / time * 1e-9;
}

std::string kernel_name(const Case& what) {
    return what.sources == 0 ? "add" : "combine " + std::to_string(what.sources);
}

}  // namespace

int main() {
    std::vector<Memory> memory;
    for (std::size_t s = 0; s < most_sources; ++s)
        memory.push_back(zeros(sizes[std::size(sizes) - 1]));
    std::printf(
        "| datatype | operation | kernel | instructions | 32 KiB | 256 KiB | 4 MiB | 64 MiB |\n");
    std::printf("|---|---|---|---|---|---|---|---|\n");
    for (const Case& what : cases) {
        for (const InstructionSet& set : mpi_bridge::instruction_sets()) {
            if (!set.runs_here()) continue;
            const Reduction* reduction = look_up(set.table(), what.datatype, what.op);
            std::printf("| %s | %s | %s | %s |", mpi_bridge::datatype_name(what.datatype).c_str(),
                        mpi_bridge::op_name(what.op).c_str(), kernel_name(what).c_str(), set.name);
            for (const std::size_t bytes : sizes)
                std::printf(" %.1f |", measure(*reduction, what, bytes, memory));
            std::printf("\n");
            std::fflush(stdout);
        }
    }
    return 0;
}
