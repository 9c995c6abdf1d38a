// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "collectives/communicator.hpp"
#include "core/deadline.hpp"
#include "gpu/device.hpp"

namespace mpi_bridge {

// The communicator's collectives in the form that a DeviceGroup stages device memory through. The
// communicator must outlive them, and nobody else may use it meanwhile.
[[nodiscard]] HostCollectives host_collectives(Communicator& communicator,
                                               std::function<Seconds()> timeout);

}  // namespace mpi_bridge
