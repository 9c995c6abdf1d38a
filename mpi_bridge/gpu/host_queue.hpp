// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/work_queue.hpp"

namespace mpi_bridge {

// The queue of a rank whose tensors are in host memory: work is done when it is put in, streams do
// not exist, and every mark is reached.
[[nodiscard]] std::unique_ptr<WorkQueue> make_host_queue();

}  // namespace mpi_bridge
