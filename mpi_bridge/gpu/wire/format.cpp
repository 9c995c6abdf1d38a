// SPDX-License-Identifier: Apache-2.0
#include "gpu/wire/format.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

#include "reduce/datatypes.hpp"

namespace mpi_bridge {
namespace {

// The columns of reduce/datatypes.hpp that matter here.
struct Type {
    Codec copy;
    Codec wire;
    Codec scale;
    Codec key;
    Codec average;
    nccl::DataType nccl;
    Family family;
};

// The codec that moves elements of that many bytes as they are.
constexpr Codec copy_of(std::size_t bytes) {
    switch (bytes) {
        case 1:
            return Codec::copy8;
        case 2:
            return Codec::copy16;
        case 4:
            return Codec::copy32;
        default:
            return Codec::copy64;
    }
}

// The codecs of Codec by their names in a row, where `copy` depends on the row.
template <std::size_t bytes>
struct CodecsOf {
    static constexpr Codec copy = copy_of(bytes);
#define MPIB_CODEC(name, ...) static constexpr Codec name = Codec::name;
    MPI_BRIDGE_CODECS(MPIB_CODEC)
#undef MPIB_CODEC
};

constexpr Type types[] = {
#define MPIB_TYPE(NAME, name, family, element, accumulator, wire, scale, key, average, type) \
    {CodecsOf<sizeof(element)>::copy,                                                        \
     CodecsOf<sizeof(element)>::wire,                                                        \
     CodecsOf<sizeof(element)>::scale,                                                       \
     CodecsOf<sizeof(element)>::key,                                                         \
     CodecsOf<sizeof(element)>::average,                                                     \
     nccl::type,                                                                             \
     Family::family},
    MPI_BRIDGE_DATATYPES(MPIB_TYPE)
#undef MPIB_TYPE
};

Outcome<Type> type_of(mpib_datatype datatype) {
    if (find_datatype(datatype) != nullptr) return types[datatype];
    return invalid(
        fmt::format("datatype {} is not supported on devices yet", static_cast<int>(datatype)));
}

// Checks that the API has this operation for the type; see mpi_bridge.h.
Done check_op(const DeviceReduction& reduction, const Type& type) {
    const mpib_op op = reduction.op;
    const bool logical = op == MPIB_AND || op == MPIB_OR;
    const bool ordered = op == MPIB_MIN || op == MPIB_MAX;
    const bool known = op >= MPIB_SUM && op <= MPIB_OR;
    const bool truth = type.family == Family::truths;
    const bool floating = type.family == Family::floats;
    if (known && (truth ? logical || ordered : !(logical && floating))) return {};
    return invalid(fmt::format("there is no operation {} for datatype {}", static_cast<int>(op),
                               static_cast<int>(reduction.datatype)));
}

Outcome<nccl::RedOp> nccl_op(const DeviceReduction& reduction) {
    const bool truth = reduction.datatype == MPIB_BOOL;
    switch (reduction.op) {
        case MPIB_MIN:
            return nccl::minimum;
        case MPIB_MAX:
            return nccl::maximum;
        case MPIB_PRODUCT:
            return nccl::product;
        case MPIB_AND:
            if (truth) return nccl::minimum;
            break;
        case MPIB_OR:
            if (truth) return nccl::maximum;
            break;
        default:
            return nccl::sum;
    }
    return invalid(
        "and and or of the bits of integers are not supported over NCCL yet; take "
        "host memory or the host-staged path");
}

bool linear(mpib_op op) {
    return op == MPIB_SUM || op == MPIB_AVERAGE;
}

Done check_factors(const DeviceReduction& reduction) {
    const bool none = reduction.prescale == 1 && reduction.postscale == 1;
    if (reduction.datatype == MPIB_BOOL && !none) {
        return invalid("BOOL cannot be scaled");
    }
    if (std::isfinite(reduction.prescale) && std::isfinite(reduction.postscale)) return {};
    return invalid(fmt::format("prescale {} and postscale {} must be finite", reduction.prescale,
                               reduction.postscale));
}

// Returns the properties of the datatype, if the API has this reduction.
Outcome<Type> check(const DeviceReduction& reduction) {
    const Type type = TRY(type_of(reduction.datatype));
    TRY(check_op(reduction, type));
    TRY(check_factors(reduction));
    return type;
}

// Moves elements as they are, or scales them on the way.
void scale_around(WireFormat& format, const Type& type, double before, double after) {
    format.pack_factor = before;
    format.unpack_factor = after;
    format.packing = before == 1 ? type.copy : type.scale;
    format.unpacking = after == 1 ? type.copy : type.scale;
}

// The kernels of one of NCCL's types of floats that scale on the way.
Codec scale_of(nccl::DataType nccl) {
    const auto* const found = std::find_if(
        std::begin(types), std::end(types),
        [&](const Type& type) { return type.family == Family::floats && type.nccl == nccl; });
    return found == std::end(types) ? Codec::scale_f32 : found->scale;
}

// 2^-14 is the smallest normal number of FLOAT16, and 2^-126 that of FLOAT32.
int least_exponent_of(nccl::DataType type) {
    return type == nccl::float16 || type == nccl::bfloat16 ? -14 : -126;
}

// Returns the power of two, at most 1, by which a product with this factor may be scaled first
// without a rounding; 1 for 0.
double power_of_two_in(double factor, int least_exponent) {
    if (factor == 0) return 1;
    int exponent = 0;
    std::frexp(factor, &exponent);
    return std::ldexp(1.0, std::clamp(exponent - 1, least_exponent, 0));
}

// Uses one factor for all: prescale, postscale and the division of an average commute with a sum.
void set_linear_floats(WireFormat& format, const Type& type, const DeviceReduction& reduction,
                       int ranks) {
    const double shared = reduction.op == MPIB_AVERAGE ? ranks : 1;
    const double factor = reduction.prescale * reduction.postscale / shared;
    if (type.nccl == nccl::float32 || type.nccl == nccl::float64) {
        scale_around(format, type, 1, 1);
        format.factor_in_sum = factor;
        return;
    }
    // NCCL takes the factor as a number of the tensor's type. A factor of one third with 8 bits of
    // precision, for example, would bias all results. So only a power of two is applied in the sum,
    // where it keeps averages from overflowing, and the rest is applied afterwards in 32 bits.
    format.factor_in_sum = power_of_two_in(factor, least_exponent_of(type.nccl));
    scale_around(format, type, 1, factor / format.factor_in_sum);
}

void set_integers(WireFormat& format, const Type& type, const DeviceReduction& reduction,
                  int ranks) {
    scale_around(format, type, reduction.prescale, reduction.postscale);
    if (reduction.op == MPIB_AVERAGE) {
        format.packing = format.unpacking = type.average;
        format.divisor = ranks;
        format.type = nccl::int64;
        format.items = type.average == Codec::i64_as_pair ? 2 : 1;
    } else if (type.wire != type.copy) {
        format.packing = format.unpacking = type.wire;
    }
}

}  // namespace

WireFormat WireFormat::for_bucket() const {
    WireFormat format = *this;
    if (factor_in_sum == 1) return format;
    format.factor_in_sum = 1;
    const double before = power_of_two_in(factor_in_sum, least_exponent_of(type));
    format.pack_factor *= before;
    format.unpack_factor *= factor_in_sum / before;
    if (format.pack_factor != 1) format.packing = scale_of(type);
    if (format.unpack_factor != 1) format.unpacking = scale_of(type);
    return format;
}

Outcome<WireFormat> wire_format(const DeviceReduction& reduction, int ranks) {
    const auto type = TRY(check(reduction));
    const auto op = TRY(nccl_op(reduction));

    WireFormat format;
    format.type = type.nccl;
    format.op = op;
    if (type.family == Family::truths) {
        format.packing = format.unpacking = type.wire;
    } else if (type.family == Family::integers) {
        set_integers(format, type, reduction, ranks);
    } else if (linear(reduction.op)) {
        set_linear_floats(format, type, reduction, ranks);
    } else {
        scale_around(format, type, reduction.prescale, reduction.postscale);
        if (reduction.op != MPIB_PRODUCT) {
            format.packing = format.unpacking = type.key;
            format.nan_is_least = reduction.op == MPIB_MIN;
            format.type = shape_of(type.key).wire_bytes == 8 ? nccl::int64 : nccl::int32;
        }
    }
    return format;
}

Outcome<StagedFormat> staged_format(const DeviceReduction& reduction) {
    const auto type = TRY(check(reduction));

    StagedFormat format;
    format.datatype = reduction.datatype;
    format.pack_factor = reduction.prescale;
    format.unpack_factor = reduction.postscale;
    format.packing = reduction.prescale == 1 ? type.copy : type.scale;
    format.unpacking = reduction.postscale == 1 ? type.copy : type.scale;
    return format;
}

}  // namespace mpi_bridge
