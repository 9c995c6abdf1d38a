// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/file_descriptor.hpp"
#include "core/fork_guard.hpp"
#include "core/open_operations.hpp"
#include "core/visible_layout.hpp"
#include "core/waits.hpp"

namespace mpi_bridge {

// What other processes of the same user can see of this one without its help, as `batchai job
// stacks` does: for which ranks it waits and how long it has waited, and which operations are open.
// It is in a file in memory without a path, so that it can be opened only through /proc/PID/fd, by
// who may look into the process. Where the system has no such files, nobody sees anything.
class VisibleState {
  public:
    VisibleState();
    ~VisibleState();
    VisibleState(const VisibleState&) = delete;
    VisibleState& operator=(const VisibleState&) = delete;

    void show_rank(int rank) { memory_->rank.store(rank, std::memory_order_relaxed); }
    [[nodiscard]] Waits& waits() { return waits_; }
    [[nodiscard]] OpenOperations& operations() { return operations_; }
    [[nodiscard]] WaitedTable& waited() { return memory_->waited; }

  private:
    FileDescriptor file_;
    VisibleLayout* memory_;
    std::optional<PrivateInChildren> private_in_children_;
    Waits waits_;
    OpenOperations operations_;
};

}  // namespace mpi_bridge
