// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "admin/finding.hpp"
#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "record/node_fault.hpp"
#include "slurm/client.hpp"
#include "slurm/job_comments.hpp"

// Which nodes the jobs of all users have found to be bad (record/node_fault.hpp).
namespace batchai::admin {

// What jobs say of one node.
struct BlamedNode {
    std::map<record::NodeFaultKind, std::set<std::string>> jobs;  // their ids in Slurm
    std::set<std::string> users;
    base::Time last;  // when it was bad for the last time
    std::string last_job;
};

struct NodeFaults {
    std::map<std::string, BlamedNode> nodes;
    int days = 0;  // so many days back from now
    bool is_complete = true;
};

// How far back is looked.
inline constexpr int days_of_node_faults = 7;

// Returns what the comments say of the nodes `known`. Comments are texts of users. What one says
// counts only if Slurm itself says that the job had this node at this time, so a job can blame no
// nodes but its own.
[[nodiscard]] std::map<std::string, BlamedNode> blamed_nodes(
    const std::vector<slurm::CommentedRun>& runs, const std::set<std::string>& known);

// Asks Slurm's accounting, day by day from now back, for not much longer than half a minute. What
// sacct does not tell in that time is left out; it is an error if that is everything.
[[nodiscard]] base::Result<NodeFaults> look_at_node_faults(
    const slurm::Client& client, const std::vector<slurm::NodeStatus>& nodes);

// Judges each node, with a warning if the jobs of several users blame it, or several jobs for
// something for which their user is hardly to blame.
[[nodiscard]] Judgement judge_node_faults(const NodeFaults& faults);

}  // namespace batchai::admin
