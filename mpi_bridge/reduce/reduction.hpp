// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/failure.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge {

// How one (datatype, operation) pair is reduced.
//
// Elements are the caller's type. Accumulators are what partial results are kept and sent in; they
// are wider where the element type would lose something on the way:
//   FLOAT16, BFLOAT16       f32: one rounding, to nearest even, when the result is stored; an
//                           average does not overflow where the sum would
//   integers under AVERAGE  the exact sum: 64 bits, or 128 bits for INT64
//   BOOL                    a byte that is 0 or 1
//   all others              the element type itself
//
// Every NaN of a result is the same quiet one, so that results do not depend on the order in which
// a compiler takes the operands of a sum.
//
// All functions work on `count` items, anywhere in memory: no alignment is needed. Accumulators and
// elements must not overlap, except where it says so. One pass over memory each.
struct Reduction {
    std::size_t element_bytes = 0;
    std::size_t accumulator_bytes = 0;

    // accumulators = elements
    void (*load)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // accumulators = accumulators op elements
    void (*add)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // result = first op second, all accumulators; either may be `result`. The order matters to the
    // bits of NaN and of signed zero.
    void (*merge)(void* result, const void* first, const void* second, std::size_t count) = nullptr;
    // elements = accumulators, divided by `ranks` when the operation is AVERAGE
    void (*store)(void* elements, const void* accumulators, std::size_t count, int ranks) = nullptr;
    // elements = sources[0] op sources[1] op ..., in that order, finished as store() does. The same
    // bits as load(), add() of each further source, and store(). sources_count is at least 1;
    // `elements` may be exactly one of the sources, but not overlap one partly.
    void (*combine)(void* elements, const void* const* sources, std::size_t sources_count,
                    std::size_t count, int ranks) = nullptr;
    // The same of two sources, to two targets at once, which must not overlap. Each target may be
    // exactly one of the sources.
    void (*combine_pair)(void* const* targets, const void* const* sources, std::size_t count,
                         int ranks) = nullptr;
    // accumulators = sources[0] op sources[1] op ...; the same bits as load() and add()s.
    void (*combine_partial)(void* accumulators, const void* const* sources,
                            std::size_t sources_count, std::size_t count) = nullptr;
    // elements = elements * factor, in place; the same for every operation of the datatype. A
    // factor of 1 changes nothing. FLOAT16, BFLOAT16 and FLOAT32 meet the factor as a 32-bit float
    // and are rounded once, to nearest even; FLOAT64 as a double. Integers are multiplied as
    // doubles (INT64 above 2^53 loses its low bits) and truncated toward zero; what does not fit
    // becomes the nearest number that does, and NaN becomes 0.
    void (*scale)(void* elements, std::size_t count, double factor) = nullptr;
};

// The chosen implementation: the fastest that this processor can run, unless choose_kernels() was
// told otherwise. nullptr for a pair that is unknown or has no meaning: why_no_reduction() tells.
// All implementations give the same bits. Any thread may call it.
[[nodiscard]] const Reduction* find_reduction(mpib_datatype datatype, mpib_op op);

// The portable implementation, which every processor can run.
[[nodiscard]] const Reduction* find_portable_reduction(mpib_datatype datatype, mpib_op op);

// One sentence, without its full stop, for the caller to whom find_reduction() gave nullptr; ""
// for a pair that it finds.
[[nodiscard]] std::string why_no_reduction(mpib_datatype datatype, mpib_op op);

// The bytes of one element; 0 for an unknown datatype.
[[nodiscard]] std::size_t datatype_bytes(mpib_datatype datatype);

// What find_reduction() gives from now on: "portable", "avx2" or "avx512", as MPI_BRIDGE_KERNELS
// says; "" for the fastest. Reductions found before stay valid. A name that is unknown, or of
// instructions that this processor lacks, is MPIB_ERROR_INVALID_ARGUMENT and changes nothing.
[[nodiscard]] Done choose_kernels(std::string_view name);

// The name of what is chosen.
[[nodiscard]] const char* reduction_instruction_set();

}  // namespace mpi_bridge
