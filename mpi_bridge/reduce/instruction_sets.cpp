// SPDX-License-Identifier: Apache-2.0
#include "reduce/instruction_sets.hpp"

#ifdef MPI_BRIDGE_X86_KERNELS
#include <cpuid.h>
#endif

namespace mpi_bridge {
namespace {

bool runs_anywhere() {
    return true;
}

#ifdef MPI_BRIDGE_X86_KERNELS

// Asked separately, because not every compiler's __builtin_cpu_supports knows F16C.
bool has_f16c() {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// __builtin_cpu_supports also checks that the system saves the registers. Its answer for AVX2 holds
// for F16C, whose registers have the same width.
bool runs_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") != 0 && has_f16c();
}

bool runs_avx512() {
    return runs_avx2() && __builtin_cpu_supports("avx512f") != 0 &&
           __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0;
}

#endif

constexpr InstructionSet sets[] = {
    {"portable", "nothing", portable_table, runs_anywhere},
#ifdef MPI_BRIDGE_X86_KERNELS
    {"avx2", "AVX2 and F16C", avx2_table, runs_avx2},
    {"avx512", "AVX-512 F, BW, DQ and VL", avx512_table, runs_avx512},
#endif
};

}  // namespace

std::span<const InstructionSet> instruction_sets() {
    return sets;
}

}  // namespace mpi_bridge
