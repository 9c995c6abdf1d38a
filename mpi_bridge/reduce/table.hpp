// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "reduce/reduction.hpp"

namespace mpi_bridge {

constexpr int datatype_count = 9;
constexpr int op_count = 5;

// Reductions by datatype, then by operation, in the order of the public enumerations. Plain arrays:
// this is filled in a translation unit that must not call inline library functions.
struct Table {
    struct Row {
        Reduction by_op[op_count];
    };
    Row by_datatype[datatype_count];
};

[[nodiscard]] const Table& portable_table();
[[nodiscard]] const Table& avx2_table();

}  // namespace mpi_bridge
