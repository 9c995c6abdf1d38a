// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/failure.hpp"
#include "mpi_bridge.h"

// Reductions in host memory.
//
//   reduction.hpp         how one datatype is reduced by one operation, and which kernels are used
//   datatypes.hpp         the table of all datatypes
//   table.hpp             the table of all reductions, of which each instruction set has one
//   instruction_sets.hpp  the builds of the kernels, and which of them run on this processor
//   kernels.inl           the kernels, compiled once per instruction set
//   lanes.inl             what the kernels are written in: several numbers as one value
//   scale.inl             multiplies elements by a factor
//   kernels_portable.cpp  the kernels for every processor
//   kernels_avx2.cpp      the kernels for AVX2
//   kernels_avx512.cpp    the kernels for AVX-512
namespace mpi_bridge {

// How one (datatype, operation) pair is reduced.
//
// Elements are the caller's type. Accumulators are the form in which partial results are kept and
// sent; they are wider if the element type would lose something on the way:
//   FLOAT16, BFLOAT16       f32: one rounding, to nearest even, when the result is stored; an
//                           average does not overflow where the sum would
//   integers under AVERAGE  the exact sum: 64 bits, or 128 bits for INT64
//   BOOL                    a byte that is 0 or 1
//   all others              the element type itself
//
// Every NaN in a result is the same quiet NaN, so that results do not depend on the order in which
// a compiler takes the operands of a sum.
//
// All functions work on `count` items anywhere in memory; no alignment is needed. Accumulators and
// elements must not overlap, except where noted. Each function makes one pass over memory.
struct Reduction {
    std::size_t element_bytes = 0;
    std::size_t accumulator_bytes = 0;

    // accumulators = elements
    void (*load)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // accumulators = accumulators op elements
    void (*add)(void* accumulators, const void* elements, std::size_t count) = nullptr;
    // result = first op second, all of them accumulators; either operand may be `result`. The order
    // affects the bits of NaN and of signed zero.
    void (*merge)(void* result, const void* first, const void* second, std::size_t count) = nullptr;
    // elements = accumulators, divided by `ranks` when the operation is AVERAGE
    void (*store)(void* elements, const void* accumulators, std::size_t count, int ranks) = nullptr;
    // elements = sources[0] op sources[1] op ..., in that order, finished as store() does. The bits
    // are the same as those of load(), add() of each further source, and store(). sources_count is
    // at least 1; `elements` may be exactly one of the sources, but must not overlap one partly.
    void (*combine)(void* elements, const void* const* sources, std::size_t sources_count,
                    std::size_t count, int ranks) = nullptr;
    // Does the same with two sources, and writes the result to two targets at once, which must not
    // overlap. Each target may be exactly one of the sources.
    void (*combine_pair)(void* const* targets, const void* const* sources, std::size_t count,
                         int ranks) = nullptr;
    // accumulators = sources[0] op sources[1] op ...; the bits are the same as those of load() and
    // add().
    void (*combine_partial)(void* accumulators, const void* const* sources,
                            std::size_t sources_count, std::size_t count) = nullptr;
    // elements = elements * factor, in place; the same for every operation of the datatype. A
    // factor of 1 changes nothing. FLOAT16, BFLOAT16 and FLOAT32 are multiplied by the factor as a
    // 32-bit float and rounded once, to nearest even; FLOAT64 is multiplied as a double. Integers
    // are multiplied as doubles (INT64 above 2^53 loses its low bits) and truncated toward zero; a
    // product that does not fit becomes the nearest number that does, and NaN becomes 0.
    void (*scale)(void* elements, std::size_t count, double factor) = nullptr;
};

// Returns the chosen implementation: the fastest that this processor can run, unless
// choose_kernels() has chosen another. Returns nullptr for a pair that is unknown or has no
// meaning; why_no_reduction() gives the reason. All implementations give the same bits. Any thread
// may call it.
[[nodiscard]] const Reduction* find_reduction(mpib_datatype datatype, mpib_op op);

// Returns the portable implementation, which every processor can run.
[[nodiscard]] const Reduction* find_portable_reduction(mpib_datatype datatype, mpib_op op);

// Explains why find_reduction() returned nullptr, in one sentence without its full stop; "" for a
// pair that it finds.
[[nodiscard]] std::string why_no_reduction(mpib_datatype datatype, mpib_op op);

// The bytes of one element; 0 for an unknown datatype.
[[nodiscard]] std::size_t datatype_bytes(mpib_datatype datatype);

// Chooses what find_reduction() returns from now on: "portable", "avx2" or "avx512", as in
// MPI_BRIDGE_KERNELS; "" for the fastest. Reductions found earlier stay valid. A name that is
// unknown, or needs instructions that this processor lacks, is MPIB_ERROR_INVALID_ARGUMENT and
// changes nothing.
[[nodiscard]] Done choose_kernels(std::string_view name);

// Returns the name of the chosen instruction set.
[[nodiscard]] const char* reduction_instruction_set();

}  // namespace mpi_bridge
