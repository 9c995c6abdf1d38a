// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "shm/node_stage.hpp"

// Groups of ranks for tests: forked processes, as in a job, or threads, which a race detector can
// look into.
namespace mpi_bridge_test {

struct Group {
    int ranks = 2;
    bool with_heaps = true;
    mpi_bridge::NodeStage::Options options = small_stage();

    // Thresholds so low that short vectors take every path.
    static mpi_bridge::NodeStage::Options small_stage() {
        mpi_bridge::NodeStage::Options options;
        options.patience = mpi_bridge::Seconds(60);
        options.flat_bytes = 256;
        options.piece_bytes = 1024;
        return options;
    }
};

// What one rank works with.
struct Member {
    mpi_bridge::NodeStage& stage;
    mpi_bridge::SharedHeap* heap;  // nullptr in a group without heaps
    // Ends the stage now, as the destructor does at the end.
    std::function<void()> leave;
};

// Returns "" when all is well, else what is wrong.
using Body = std::function<std::string(Member&)>;

// What a rank's body said; or "signal N" of a process that a signal ended, after 60 s at the
// latest.
[[nodiscard]] std::vector<std::string> in_processes(const Group& group, const Body& body);
[[nodiscard]] std::vector<std::string> in_threads(const Group& group, const Body& body);

// Runs something in a process of its own; the answer as above.
[[nodiscard]] std::string in_child(const std::function<std::string()>& body);

// Names in /dev/shm of segments that a process made.
[[nodiscard]] std::vector<std::string> segments_of(pid_t process);

}  // namespace mpi_bridge_test
