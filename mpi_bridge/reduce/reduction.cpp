// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduction.hpp"

#include "reduce/table.hpp"

#ifdef MPI_BRIDGE_AVX2
#include <cpuid.h>
#endif

namespace mpi_bridge {
namespace {

bool has_avx2() {
#ifdef MPI_BRIDGE_AVX2
    static const bool present = [] {
        __builtin_cpu_init();
        // Not every compiler's __builtin_cpu_supports knows F16C.
        unsigned eax = 0;
        unsigned ebx = 0;
        unsigned ecx = 0;
        unsigned edx = 0;
        const bool f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
        return f16c && __builtin_cpu_supports("avx2") != 0;
    }();
    return present;
#else
    return false;
#endif
}

const Table& best_table() {
#ifdef MPI_BRIDGE_AVX2
    if (has_avx2()) return avx2_table();
#endif
    return portable_table();
}

const Reduction* look_up(const Table& table, mpib_datatype datatype, mpib_op op) {
    const auto row = static_cast<unsigned>(datatype);
    const auto column = static_cast<unsigned>(op);
    if (row >= datatype_count || column >= op_count) return nullptr;
    return &table.by_datatype[row].by_op[column];
}

}  // namespace

const Reduction* find_reduction(mpib_datatype datatype, mpib_op op) {
    return look_up(best_table(), datatype, op);
}

const Reduction* find_portable_reduction(mpib_datatype datatype, mpib_op op) {
    return look_up(portable_table(), datatype, op);
}

const char* reduction_instruction_set() {
    return has_avx2() ? "avx2+f16c" : "portable";
}

}  // namespace mpi_bridge
