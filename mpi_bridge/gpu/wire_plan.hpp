// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/failure.hpp"
#include "gpu/codec.hpp"
#include "gpu/device.hpp"
#include "gpu/nccl_library.hpp"

namespace mpi_bridge {

// How a reduction is carried out by NCCL, which knows neither 16-bit integers, nor true averages of
// integers, nor minima that respect NaN, nor factors after the sum.
struct WirePlan {
    Codec packing = Codec::copy32;
    Codec unpacking = Codec::copy32;  // of equal sizes as `packing`
    double pack_factor = 1;
    double unpack_factor = 1;
    long long divisor = 1;
    bool nan_is_least = false;

    nccl::DataType type = nccl::float32;
    unsigned items = 1;  // of that type in one wire element
    nccl::RedOp op = nccl::sum;
    double factor_in_sum = 1;  // not 1: the operation is a sum of products with this factor

    // Whether a tensor may be reduced where it is; unpacking that is no copy then runs in place.
    [[nodiscard]] bool direct() const { return is_copy(packing); }
};

// MPIB_ERROR_INVALID_ARGUMENT for what the reduction does not allow.
[[nodiscard]] Outcome<WirePlan> plan_wire(const DeviceReduction& reduction, int ranks);

// How it is carried out by collectives on host memory, which know all types and operations: only
// the factors and the compression are applied by kernels. The collective works on `datatype`.
struct StagedPlan {
    Codec packing = Codec::copy32;
    Codec unpacking = Codec::copy32;
    double pack_factor = 1;
    double unpack_factor = 1;
    mpib_datatype datatype = MPIB_FLOAT32;
};
[[nodiscard]] Outcome<StagedPlan> plan_staged(const DeviceReduction& reduction);

}  // namespace mpi_bridge
