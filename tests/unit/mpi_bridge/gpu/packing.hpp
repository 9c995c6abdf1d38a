// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "gpu/bucket.hpp"
#include "gpu/staged/host_kernels.hpp"

namespace mpi_bridge_test {

constexpr auto poison = std::byte{0xA5};

// Encodes one contiguous array.
template <typename Wire, typename Tensor>
std::vector<Wire> encode(mpi_bridge::Codec codec, std::vector<Tensor> values,
                         mpi_bridge::kernels::Arguments arguments) {
    std::vector<Wire> wire(values.size());
    const mpi_bridge::DevicePart part{values.data(), values.data(), values.size()};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(wire.data());
    const auto parts = std::span(&part, 1);
    for (const auto& launch :
         launches_for(parts, lay_out(parts), mpi_bridge::Way::pack, arguments)) {
        run_on_host(codec, mpi_bridge::Way::pack, launch);
    }
    return wire;
}

template <typename Tensor, typename Wire>
std::vector<Tensor> decode(mpi_bridge::Codec codec, std::vector<Wire> wire,
                           mpi_bridge::kernels::Arguments arguments) {
    std::vector<Tensor> values(wire.size());
    const mpi_bridge::DevicePart part{values.data(), values.data(), values.size()};
    arguments.bucket = reinterpret_cast<std::uintptr_t>(wire.data());
    const auto parts = std::span(&part, 1);
    for (const auto& launch :
         launches_for(parts, lay_out(parts), mpi_bridge::Way::unpack, arguments)) {
        run_on_host(codec, mpi_bridge::Way::unpack, launch);
    }
    return values;
}

inline mpi_bridge::kernels::Arguments with_factor(double factor) {
    mpi_bridge::kernels::Arguments arguments{};
    arguments.factor = factor;
    arguments.divisor = 1;
    return arguments;
}

}  // namespace mpi_bridge_test
