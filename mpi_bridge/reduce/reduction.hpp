// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "mpi_bridge.h"

namespace mpi_bridge {

// How one (datatype, operation) pair is reduced.
//
// Elements are the caller's type. Accumulators are what partial results are kept and sent in; they
// are wider where the element type would lose something on the way:
//   FLOAT16, BFLOAT16       f32: one rounding, to nearest even, when the result is stored; an
//                           average does not overflow where the sum would
//   integers under AVERAGE  the exact sum: 64 bits, or 128 bits for INT64
//   all others              the element type itself
//
// All functions work on `count` items; no alignment beyond the type's own is needed. Accumulators
// and elements must not overlap, except that `first` and `second` of merge may be `result`.
struct Reduction {
    std::size_t element_bytes = 0;
    std::size_t accumulator_bytes = 0;

    // accumulators = elements
    void (*load)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // accumulators = accumulators op elements
    void (*add)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // result = first op second; the order matters to the bits of NaN and of signed zero
    void (*merge)(void* result, const void* first, const void* second, std::size_t count) = nullptr;
    // elements = accumulators, divided by `ranks` when the operation is AVERAGE
    void (*store)(void* elements, const void* accumulators, std::size_t count, int ranks) = nullptr;
};

// The fastest implementation this processor can run; nullptr for an unknown pair. All
// implementations give the same bits.
[[nodiscard]] const Reduction* find_reduction(mpib_datatype datatype, mpib_op op);

// The portable implementation, for tests and for processors without the extensions.
[[nodiscard]] const Reduction* find_portable_reduction(mpib_datatype datatype, mpib_op op);

// "avx2+f16c" or "portable".
[[nodiscard]] const char* reduction_instruction_set();

}  // namespace mpi_bridge
