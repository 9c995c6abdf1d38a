// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "node/beneath.hpp"
#include "node/trace.hpp"
#include "plan/plan.hpp"

// libmpi_bridge, its Python packages and the wire-up check of the node, shown read-only in the
// job's container with the libraries that they need: so an image needs none of them.
namespace batchai::node {

// Laid out as an installation is, so that the packages find the library.
inline constexpr const char* injected_root = "/opt/batchai";
inline constexpr const char* injected_python = "/opt/batchai/lib/batchai/python";
inline constexpr const char* injected_wire_up = "/opt/batchai/libexec/batchai/mpi_bridge_wireup";
// Says why there are none of them.
inline constexpr const char* not_injected_note = "/opt/batchai/not-injected";

// Among the job's variables; "0" says that it wants its image as it is.
inline constexpr const char* inject_variable = "BATCHAI_INJECT";

// In the process that makes the container, before it changes its root to the image's. What cannot
// be shown is no fault of the job: then there is a note inside, and a line in the log.
void inject(const plan::Plan& plan, const Root& image_root, const Trace& trace);

// In the container: adds to the job's variables a PYTHONPATH with the injected packages behind what
// the job, else the image, has in it; nothing when they are not there.
void add_injected_packages(const plan::Container& container,
                           std::vector<plan::Variable>& environment);

}  // namespace batchai::node
