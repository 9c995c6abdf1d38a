// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "core/visible_layout.hpp"

namespace mpi_bridge {

// Shows which operations of the engine have waited for a while to who looks at this process from
// outside. Any thread may call.
class OpenOperations {
  public:
    // The table must outlive this object.
    explicit OpenOperations(OperationsTable& table) : table_(table) {}
    OpenOperations(const OpenOperations&) = delete;
    OpenOperations& operator=(const OpenOperations&) = delete;

    // Replaces what is shown of a process set by these lines of OperationsTable, which may be none.
    // Lines that do not fit are left out.
    void show(int process_set, std::string lines);

  private:
    OperationsTable& table_;
    std::mutex mutex_;
    std::map<int, std::string> shown_;  // by process set
};

}  // namespace mpi_bridge
