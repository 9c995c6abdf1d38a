// SPDX-License-Identifier: Apache-2.0
#include "staging.hpp"

#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "library.hpp"

namespace mpi_bridge::torch {

namespace {

// For smaller tensors, passing them on is as fast as the copies.
constexpr std::size_t worth_bytes = 256UL * 1024;

}  // namespace

at::Tensor Staging::place_for(const std::string& name, const Naming& naming,
                              const at::Tensor& flat) {
    if (!is_possible_ || !flat.is_cpu() || flat.nbytes() < worth_bytes ||
        library().local_size() <= 1) {
        return {};
    }
    const auto cycle = naming.cycle_of(name);
    if (cycle == 0) {
        return {};
    }
    if (cycle != cycle_) {
        // Operations in flight keep their memory.
        cycle_ = cycle;
        places_.clear();
    }
    auto& place = places_[name];
    if (place.defined()) {
        return place;
    }
    auto* const memory = library().alloc(flat.nbytes());
    if (memory == nullptr) {
        is_possible_ = false;
        TORCH_WARN(
            "mpi_bridge: large gradients are reduced from private memory, which takes "
            "longer: ",
            library().last_error());
        return {};
    }
    // mpib_finalize() frees what is left.
    const auto free = [made_in = session()](void* address) {
        if (made_in == session()) {
            library().free(address);
        }
    };
    place = at::from_blob(memory, flat.sizes(), free, flat.options());
    return place;
}

}  // namespace mpi_bridge::torch
