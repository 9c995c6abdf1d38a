// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <unordered_map>

#include <ATen/core/Tensor.h>

#include "naming.hpp"

namespace mpi_bridge::torch {

/// One group's shared memory in place of large tensors that are reduced again and again, by the
/// names of the operations in its present cycle.
///
/// The ranks of a node reduce shared memory in place, each its own part. Private tensors have to be
/// passed on piece by piece, in lock-step, while the processors are busy with the next layer's
/// gradients. torch gives DistributedDataParallel's buckets private memory, so copying to shared
/// memory and back is much faster.
class Staging {
  public:
    /// Shared memory like the flat tensor, the same for each name of a cycle, or none if the copies
    /// would not pay. One thread at a time may call this.
    at::Tensor place_for(const std::string& name, const Naming& naming, const at::Tensor& flat);

    /// Lets go of all memory but that of operations in flight.
    void clear() { places_.clear(); }

  private:
    bool is_possible_ = true;
    int cycle_ = 0;
    std::unordered_map<std::string, at::Tensor> places_;
};

}  // namespace mpi_bridge::torch
