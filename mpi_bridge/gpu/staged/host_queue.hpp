// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpu/work_queue.hpp"

namespace mpi_bridge {

// Makes the queue of a rank whose tensors are in host memory: work is done as soon as it is
// enqueued, there are no streams, and every mark is reached.
[[nodiscard]] std::unique_ptr<WorkQueue> make_host_queue();

}  // namespace mpi_bridge
