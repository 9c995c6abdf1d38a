// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "admin/node_faults.hpp"
#include "base/error.hpp"
#include "base/network.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "slurm/status.hpp"

namespace batchai::admin {

// What the checks of the cluster as a whole look at. An answer that could not be had is the error
// that says why.
struct ClusterFacts {
    base::Result<std::string> version;  // of Slurm, such as "22.05.8"
    base::Result<void> controller;      // whether it answers
    base::Result<void> credentials;     // whether munge makes and accepts them here
    base::Result<slurm::Configuration> configuration;
    base::Result<std::string> srun_help;               // what srun --help prints
    base::Result<std::vector<std::string>> mpi_types;  // srun --mpi=
    base::Result<std::vector<slurm::NodeStatus>> nodes;
    base::Result<std::map<std::string, base::Endpoint>> daemons;  // where each node's slurmd is
    base::Result<std::set<std::string>> partitions;  // also those that this user may not use
    base::Result<site::Site> site;
    // The text of cli_filter.lua: that of CliFilterParameters, or else beside slurm.conf.
    base::Result<std::string> cli_filter;
    // Nothing unless site.lua has jobs note them and Slurm keeps that (keeps_comments()).
    base::Result<NodeFaults> node_faults;

    // Returns a value of Slurm's configuration; "" if it is not there or says that there is none.
    [[nodiscard]] std::string configured(std::string_view key) const;
    // Returns whether Slurm's accounting keeps the comments on jobs.
    [[nodiscard]] bool keeps_comments() const;
};

// Asks Slurm and reads files. Changes nothing, and submits nothing.
[[nodiscard]] ClusterFacts look_at_cluster(const slurm::Client& client);

}  // namespace batchai::admin
