// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/datatypes.hpp"
#include "reduce/reduction.hpp"

namespace mpi_bridge {

constexpr unsigned op_count = 7;

// Reductions by datatype, then by operation, in the order of the public enumerations; pairs that
// have no meaning are left empty. Plain arrays, because the table is filled in a translation unit
// that must not call inline library functions.
struct KernelTable {
    struct Row {
        Reduction by_op[op_count];
    };
    Row by_datatype[datatype_count];
};

// One function per instruction set; instruction_sets.hpp says which of them may be called.
[[nodiscard]] const KernelTable& portable_table();
[[nodiscard]] const KernelTable& avx2_table();
[[nodiscard]] const KernelTable& avx512_table();

// Returns nullptr for a pair that is unknown or has no meaning.
[[nodiscard]] const Reduction* look_up(const KernelTable& table, mpib_datatype datatype,
                                       mpib_op op);

}  // namespace mpi_bridge
