// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <span>
#include <string_view>

#include "admin/cluster_facts.hpp"
#include "admin/finding.hpp"
#include "admin/host_facts.hpp"

// The checks of `batchai admin check`. Each judges facts and asks nothing itself, so that a test
// can give it the facts of any site. cluster_checks.cpp and host_checks.cpp have the checks. Around
// them are:
//
//   cluster_facts.hpp  gathers what the checks of the cluster look at
//   host_facts.hpp     gathers what the checks of a host look at
//   finding.hpp        what a check has found
//   findings_view.hpp  makes the checks, compares hosts and writes the report
//   node_faults.hpp    which nodes the jobs of all users have found to be bad
//   nodes.hpp          runs the checks on nodes
//   plugstack.hpp      reads Slurm's plugstack.conf
//   plugin_object.hpp  the version of Slurm that a plugin was built for
//   pmix_plugin.hpp    Slurm's plugin for PMIx, and the libpmix that it loads
//   installation.hpp   what the installation uses, and where that comes from
//   diagnosis.hpp      the archive for somebody who looks for the cause of a job's failure
//   masking.hpp        takes secrets out of texts
namespace batchai::admin {

template <typename Facts>
struct Check {
    std::string_view id;     // never changes its meaning; scripts select by it
    std::string_view title;  // "what is looked at"
    std::string_view why;    // what does not work if it fails; whole sentences
    Judgement (*judge)(const Facts& facts);
};

// Checks that are made once.
[[nodiscard]] std::span<const Check<ClusterFacts>> cluster_checks();

// Checks that are made on each host that runs jobs or submits them.
[[nodiscard]] std::span<const Check<HostFacts>> host_checks();

}  // namespace batchai::admin
