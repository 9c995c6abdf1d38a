// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

namespace mpi_bridge {

class Communicator;

// The communicators of a process, so that the failure of one can end what the others wait for. Any
// thread may call any function. Communicators enter and leave by themselves; the registry must
// outlive them.
class CommunicatorRegistry {
  public:
    CommunicatorRegistry() = default;
    CommunicatorRegistry(const CommunicatorRegistry&) = delete;
    CommunicatorRegistry& operator=(const CommunicatorRegistry&) = delete;

    void enter(Communicator& communicator);
    void leave(Communicator& communicator);
    void abandon_all();

  private:
    std::mutex mutex_;
    std::vector<Communicator*> present_;
};

}  // namespace mpi_bridge
