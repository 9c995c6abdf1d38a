// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/network.hpp"

// Where the ranks of a step that is started by srun itself can meet: a port on the step's first
// node, which is bound before it is told to the others. (`batchai run` has a port of its own.)
namespace batchai::node {

struct RendezvousRequest {
    std::string directory;  // on a file system that all nodes of the step see
    std::string step;       // no other step that may use the directory has this name
    int node = 0;           // of this node, among those of the step
    int nodes = 1;
};

struct Rendezvous {
    std::string address;
    int port = 0;
    // On the first node, which must keep it as long as the step runs.
    std::optional<base::ReservedPort> reserved;
};

// The file by which the first node tells the others: "<directory>/master-<step>".
[[nodiscard]] std::string rendezvous_file(const RendezvousRequest& request);

// The first node reserves the port and writes the file; the others wait until it is there.
[[nodiscard]] base::Result<Rendezvous> meet(const RendezvousRequest& request,
                                            std::chrono::milliseconds deadline);

}  // namespace batchai::node
