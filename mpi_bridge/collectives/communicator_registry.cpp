// SPDX-License-Identifier: Apache-2.0
#include "collectives/communicator_registry.hpp"

#include "collectives/communicator.hpp"

namespace mpi_bridge {

void CommunicatorRegistry::enter(Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    present_.push_back(&communicator);
}

void CommunicatorRegistry::leave(Communicator& communicator) {
    const std::lock_guard lock(mutex_);
    std::erase(present_, &communicator);
}

void CommunicatorRegistry::abandon_all() {
    const std::lock_guard lock(mutex_);
    for (Communicator* communicator : present_)
        communicator->abandon();
}

}  // namespace mpi_bridge
