// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "reduce/table.hpp"

namespace mpi_bridge {

constexpr std::size_t vector_bytes = 16;

#include "reduce/kernels.inl"

const KernelTable& portable_table() {
    return table;
}

}  // namespace mpi_bridge
