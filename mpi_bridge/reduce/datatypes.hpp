// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

#include "mpi_bridge.h"

// Every datatype, in the order of mpib_datatype:
//
//   X(NAME, name, family, element, accumulator, wire, scale, key, average, nccl)
//
//   NAME, name   in mpi_bridge.h without its prefix, and in array libraries
//   family       what it can do, see Family; kernels.inl has a function of that name
//   element      its C++ type, or what holds its bits
//   accumulator  the type of its partial sums: see Reduction. Of an integer, this is the type of
//                the sum for an average; other integer results wrap in the element.
//   wire …       codecs of gpu/wire/, with `copy` for what it does not need: into a type that NCCL
//                reduces, for a factor, from a float to an integer with the same order, and from
//                an integer to one that holds the sum of an average
//   nccl         the type that NCCL reduces
//
// A new datatype is a row here, its number in mpi_bridge.h and in mpi_bridge/datatype.py, and the
// kernels that it needs: a Convert in lanes.inl, codecs in gpu/cuda/.
// clang-format off
#define MPI_BRIDGE_DATATYPES(X) \
    X(UINT8,    uint8,    integers, std::uint8_t,    std::int64_t,   copy,       scale_u8,   copy,        u8_as_i64,   uint8)    \
    X(INT8,     int8,     integers, std::int8_t,     std::int64_t,   copy,       scale_i8,   copy,        i8_as_i64,   int8)     \
    X(INT16,    int16,    integers, std::int16_t,    std::int64_t,   i16_as_i32, scale_i16,  copy,        i16_as_i64,  int32)    \
    X(INT32,    int32,    integers, std::int32_t,    std::int64_t,   copy,       scale_i32,  copy,        i32_as_i64,  int32)    \
    X(INT64,    int64,    integers, std::int64_t,    datatype::Wide, copy,       scale_i64,  copy,        i64_as_pair, int64)    \
    X(FLOAT16,  float16,  floats,   datatype::Half,  float,          copy,       scale_f16,  f16_as_key,  copy,        float16)  \
    X(BFLOAT16, bfloat16, floats,   datatype::Brain, float,          copy,       scale_bf16, bf16_as_key, copy,        bfloat16) \
    X(FLOAT32,  float32,  floats,   float,           float,          copy,       scale_f32,  f32_as_key,  copy,        float32)  \
    X(FLOAT64,  float64,  floats,   double,          double,         copy,       scale_f64,  f64_as_key,  copy,        float64)  \
    X(BOOL,     bool,     truths,   datatype::Truth, std::uint8_t,   bool_as_u8, copy,       copy,        copy,        uint8)
// clang-format on

namespace mpi_bridge {

enum class Family : std::uint8_t {
    integers,  // all operations
    floats,    // all but AND and OR
    truths,    // MIN, MAX, AND and OR
};

namespace datatype {

// These are storage only: a distinct type each, so that templates can tell them apart.
struct Half {
    std::uint16_t bits;
    static constexpr std::uint16_t one = 0x3c00;
    static constexpr std::uint16_t infinity = 0x7c00;
};
struct Brain {
    std::uint16_t bits;
    static constexpr std::uint16_t one = 0x3f80;
    static constexpr std::uint16_t infinity = 0x7f80;
};
// A byte that is false when zero; its accumulator is 0 or 1.
struct Truth {
    std::uint8_t byte;
};

__extension__ typedef __int128 Wide;

}  // namespace datatype

struct Datatype {
    mpib_datatype number;
    std::string_view name;  // in array libraries
    Family family;
    std::size_t bytes;  // of one element
};
inline constexpr Datatype datatypes[] = {
#define MPIB_ROW(NAME, name, family, element, ...) \
    {MPIB_##NAME, #name, Family::family, sizeof(element)},
    MPI_BRIDGE_DATATYPES(MPIB_ROW)
#undef MPIB_ROW
};
inline constexpr unsigned datatype_count = std::size(datatypes);

// Returns nullptr for a number that is none of mpib_datatype.
[[nodiscard]] constexpr const Datatype* find_datatype(int number) {
    const auto row = static_cast<unsigned>(number);
    return row < datatype_count ? &datatypes[row] : nullptr;
}

// The names of mpi_bridge.h, such as "MPIB_FLOAT32" and "MPIB_SUM", for messages; an unknown value
// is shown by its number: "datatype 42", "operation 42".
[[nodiscard]] std::string datatype_name(mpib_datatype datatype);
[[nodiscard]] std::string op_name(mpib_op op);

// The name in array libraries; "unknown" for a number that is none of mpib_datatype.
[[nodiscard]] constexpr std::string_view datatype_word(int number) {
    const Datatype* const datatype = find_datatype(number);
    return datatype == nullptr ? std::string_view("unknown") : datatype->name;
}

static_assert([] {
    for (unsigned row = 0; row < datatype_count; ++row) {
        if (static_cast<unsigned>(datatypes[row].number) != row) return false;
    }
    return true;
}());

}  // namespace mpi_bridge
