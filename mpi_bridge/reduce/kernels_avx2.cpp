// SPDX-License-Identifier: Apache-2.0
// Compiled with -mavx2 -mf16c; called only if the processor has both.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <immintrin.h>

#include "reduce/table.hpp"

namespace mpi_bridge {

constexpr std::size_t vector_bytes = 32;

#include "reduce/kernels.inl"

const KernelTable& avx2_table() {
    return table;
}

}  // namespace mpi_bridge
