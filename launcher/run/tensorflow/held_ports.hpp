// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "plan/plan.hpp"
#include "plan/tensorflow.hpp"
#include "run/srun/step.hpp"
#include "run/tensorflow/wiring.hpp"

namespace batchai::run {

// The ports of a TensorFlow job's tasks. A background step holds them as long as this object
// exists. It is laid out like the step of the ranks, so that Slurm itself says where each will run.
struct HeldPorts {
    TensorFlowTasks tasks;
    base::FileDescriptor printed;  // stays open, because srun would fail to write to a closed pipe
    BackgroundStep holder;
};

// How to start the step and how long to wait for it.
struct PortsRequest {
    base::Arguments arguments;
    base::Environment environment;
    std::string messages_path;  // of srun
    std::chrono::seconds deadline{60};
    // Asked while the step starts; returns the signal that ends the job.
    std::function<std::optional<int>()> stopped_by = [] { return std::nullopt; };
};

// What came of the request: the ports, or the signal that has ended the wait.
struct PortsAnswer {
    std::optional<HeldPorts> ports;
    std::optional<int> stopped_by;
};
[[nodiscard]] base::Result<PortsAnswer> hold_ports(const PortsRequest& request,
                                                   const plan::TensorFlowCluster& cluster,
                                                   const NodeAddresses& at);

// Implements `batchai hold-ports`, the program of that step. Each task binds a port for the worker
// of its number, and the first task of each of the first nodes one more for a parameter server.
// Prints the ports, and holds them until it is told to end. Returns the exit code.
[[nodiscard]] int hold_ports_here(int parameter_servers);

}  // namespace batchai::run
