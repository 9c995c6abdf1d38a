// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "node/rootfs/host_tree.hpp"
#include "plan/plan.hpp"

// What of the node a container shows: a value, for the tests and for the log.
namespace batchai::node {

struct NodePlaces {
    std::string home;              // the user's; empty: none
    std::string spool;             // slurmd's, where PMIx's server has its sockets
    std::string submit_directory;  // from where srun was called; empty: not known
};

// Outer directories before those inside them; none inside another of the same name.
[[nodiscard]] std::vector<Bind> plan_binds(const plan::Plan& plan, const NodePlaces& places);

// Of these, what a step brings that joins a living container: the directory from which it was
// started, unless every container of the plan shows that anyway or it may not be shown at all.
[[nodiscard]] std::optional<Bind> further_bind(const plan::Plan& plan, const NodePlaces& places);

}  // namespace batchai::node
