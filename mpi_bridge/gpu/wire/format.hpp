// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/failure.hpp"
#include "gpu/device_group.hpp"
#include "gpu/nccl/library.hpp"
#include "gpu/wire/codec.hpp"

namespace mpi_bridge {

// How NCCL carries out a reduction. NCCL knows neither 16-bit integers, nor true averages of
// integers, nor minima that respect NaN, nor factors after the sum.
struct WireFormat {
    Codec packing = Codec::copy32;
    Codec unpacking = Codec::copy32;  // has the same element sizes as `packing`
    double pack_factor = 1;
    double unpack_factor = 1;
    long long divisor = 1;
    bool nan_is_least = false;

    nccl::DataType type = nccl::float32;
    unsigned items = 1;  // number of elements of that type in one wire element
    nccl::RedOp op = nccl::sum;
    double factor_in_sum = 1;  // if not 1, the operation sums the products with this factor

    // Whether a tensor may be reduced in place; if unpacking is no copy, it then runs in place too.
    [[nodiscard]] bool direct() const { return is_copy(packing); }

    // The same reduction of tensors that are packed anyway: the kernels that move them apply the
    // factors, a power of two before the sum if the factor is below 1, so that the sum does not
    // overflow, and the rest after it. NCCL's switches (NVLS) sum, but do not multiply.
    [[nodiscard]] WireFormat for_bucket() const;
};

// MPIB_ERROR_INVALID_ARGUMENT if the API does not have this reduction.
[[nodiscard]] Outcome<WireFormat> wire_format(const DeviceReduction& reduction, int ranks);

// How collectives on host memory carry out a reduction. They know all types and operations, so
// kernels apply only the factors. The collective works on `datatype`.
struct StagedFormat {
    Codec packing = Codec::copy32;
    Codec unpacking = Codec::copy32;
    double pack_factor = 1;
    double unpack_factor = 1;
    mpib_datatype datatype = MPIB_FLOAT32;
};
[[nodiscard]] Outcome<StagedFormat> staged_format(const DeviceReduction& reduction);

}  // namespace mpi_bridge
