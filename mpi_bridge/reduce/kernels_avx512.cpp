// SPDX-License-Identifier: Apache-2.0
// Compiled for AVX-512 F, BW, DQ, VL and F16C; called only if the processor has all of them.
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <immintrin.h>

#include "reduce/table.hpp"

namespace mpi_bridge {

constexpr std::size_t vector_bytes = 64;

#include "reduce/kernels.inl"

const KernelTable& avx512_table() {
    return table;
}

}  // namespace mpi_bridge
