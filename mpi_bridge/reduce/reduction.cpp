// SPDX-License-Identifier: Apache-2.0
#include "reduce/reduction.hpp"

#include "reduce/table.hpp"

namespace mpi_bridge {
namespace {

bool has_avx2() {
#ifdef MPI_BRIDGE_AVX2
    static const bool present = [] {
        __builtin_cpu_init();
        return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
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
