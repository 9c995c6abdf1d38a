// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/network.hpp"

// The rendezvous for the ranks of a step that is started directly with srun: a port on the step's
// first node, which is bound before the other nodes are told its number. (`batchai run` reserves a
// port of its own.)
namespace batchai::node {

struct RendezvousRequest {
    std::string directory;  // on a file system that all nodes of the step see
    std::string step;       // unique among the steps that may use the directory
    int node = 0;           // index of this node among the nodes of the step
    int nodes = 1;
};

struct Rendezvous {
    std::string address;
    int port = 0;
    // Set on the first node, which must keep it as long as the step runs.
    std::optional<base::ReservedPort> reserved;
};

// Returns the path of the file in which the first node tells the others its address and port:
// "<directory>/master-<step>".
[[nodiscard]] std::string rendezvous_file(const RendezvousRequest& request);

// The first node reserves the port and writes the file. The other nodes wait for the file.
[[nodiscard]] base::Result<Rendezvous> meet(const RendezvousRequest& request,
                                            std::chrono::milliseconds deadline);

}  // namespace batchai::node
