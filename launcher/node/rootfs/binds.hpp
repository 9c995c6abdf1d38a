// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/rootfs/mounts.hpp"
#include "plan/plan.hpp"

// Which parts of the node's file system a container shows. Pure.
namespace batchai::node {

struct NodePlaces {
    std::string home;              // the user's; empty: none
    std::string spool;             // slurmd's, where PMIx's server has its sockets
    std::string submit_directory;  // from where srun was called; empty: not known
};

// Sorted so that outer directories come before those inside them. A directory that its outer one
// shows anyway is left out.
[[nodiscard]] std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places);

// What a step adds to a container that another step has made: the directory in which it was
// started, unless every container of the plan shows that, or no container may.
[[nodiscard]] std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places);

}  // namespace batchai::node
