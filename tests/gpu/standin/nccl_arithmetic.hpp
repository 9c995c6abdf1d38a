// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace standin {

// NCCL's numbers: 0 int8, 1 uint8, 2 int32, 3 uint32, 4 int64, 5 uint64, 6 float16, 7 float32,
// 8 float64, 9 bfloat16. 0 for others.
std::size_t bytes_of_type(int type);

// out[i] = inputs[0][i] op inputs[1][i] op …, rounded at each step, as NCCL does. op: 0 sum,
// 1 product, 2 maximum, 3 minimum. `out` may be one of the inputs.
void reduce(std::byte* out, std::span<const std::byte* const> inputs, std::size_t count, int type,
            int op);

// values[i] *= *factor, in the type's own arithmetic. Both may have any alignment.
void scale(std::byte* values, std::size_t count, int type, const std::byte* factor);

}  // namespace standin
