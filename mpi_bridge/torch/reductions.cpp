// SPDX-License-Identifier: Apache-2.0
#include "reductions.hpp"

#include <ATen/Functions.h>

namespace mpi_bridge::torch {

std::optional<mpib_datatype> datatype_of(c10::ScalarType type) {
    switch (type) {
        case c10::ScalarType::Byte:
            return MPIB_UINT8;
        case c10::ScalarType::Char:
            return MPIB_INT8;
        case c10::ScalarType::Short:
            return MPIB_INT16;
        case c10::ScalarType::Int:
            return MPIB_INT32;
        case c10::ScalarType::Long:
            return MPIB_INT64;
        case c10::ScalarType::Half:
            return MPIB_FLOAT16;
        case c10::ScalarType::BFloat16:
            return MPIB_BFLOAT16;
        case c10::ScalarType::Float:
            return MPIB_FLOAT32;
        case c10::ScalarType::Double:
            return MPIB_FLOAT64;
        case c10::ScalarType::Bool:
            return MPIB_BOOL;
        default:
            return std::nullopt;
    }
}

bool is_xor(const c10d::ReduceOp& op) {
    return op.op_ == c10d::ReduceOp::BXOR;
}

at::Tensor xor_of(const std::vector<at::Tensor>& parts) {
    auto all = parts.front();
    for (std::size_t place = 1; place < parts.size(); ++place) {
        all = at::bitwise_xor(all, parts[place]);
    }
    return all;
}

Reduction reduction_of(const c10d::ReduceOp& op, c10::ScalarType type) {
    // Of truth values as in NCCL.
    const auto is_bool = type == c10::ScalarType::Bool;
    switch (op.op_) {
        case c10d::ReduceOp::SUM:
            return {.op = is_bool ? MPIB_OR : MPIB_SUM};
        case c10d::ReduceOp::AVG:
            return {.op = MPIB_AVERAGE};
        case c10d::ReduceOp::PRODUCT:
            return {.op = is_bool ? MPIB_AND : MPIB_PRODUCT};
        case c10d::ReduceOp::MIN:
            return {.op = MPIB_MIN};
        case c10d::ReduceOp::MAX:
            return {.op = MPIB_MAX};
        case c10d::ReduceOp::BAND:
            return {.op = MPIB_AND};
        case c10d::ReduceOp::BOR:
            return {.op = MPIB_OR};
        case c10d::ReduceOp::PREMUL_SUM: {
            const auto* const factor =
                dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
            TORCH_CHECK(factor != nullptr, "PREMUL_SUM without a factor");
            return {.op = MPIB_SUM,
                    .prescale = factor->tensor_factor.defined()
                                    ? factor->tensor_factor.item().toDouble()
                                    : factor->double_factor};
        }
        default:
            TORCH_CHECK_NOT_IMPLEMENTED(false, "the reduction ", static_cast<int>(op.op_),
                                        " of torch is not supported yet by mpi_bridge");
    }
}

bool is_plain(const at::Tensor& tensor) {
    return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor plain(const at::Tensor& tensor) {
    return tensor.detach().resolve_conj().resolve_neg().contiguous();
}

at::Tensor reducible(const at::Tensor& tensor, const Reduction& reduction) {
    auto flat = tensor.view({-1});
    if (flat.is_complex()) {
        TORCH_CHECK_NOT_IMPLEMENTED(
            reduction.op == MPIB_SUM || reduction.op == MPIB_AVERAGE,
            "this reduction of complex numbers: there are SUM and AVG only");
        flat = at::view_as_real(flat).view({-1});
    }
    TORCH_CHECK_NOT_IMPLEMENTED(datatype_of(flat.scalar_type()).has_value(), "tensors of ",
                                flat.scalar_type(), " cannot be reduced by mpi_bridge yet");
    return flat;
}

at::Tensor as_bytes(const at::Tensor& tensor) {
    if (tensor.numel() == 0) {
        return at::empty({0}, tensor.options().dtype(at::kByte));
    }
    auto flat = tensor.view({-1});
    // Of a single element, torch takes any stride for contiguous.
    if (flat.stride(0) != 1) {
        flat = flat.as_strided(flat.sizes(), {1});
    }
    return flat.view(at::kByte);
}

}  // namespace mpi_bridge::torch
