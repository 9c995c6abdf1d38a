// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/timestamp.hpp"

// What the store keeps of each resource: values. Where they lie is store.hpp's business.
namespace batchai::store {

using Tags = std::map<std::string, std::string>;

struct WorkspaceKey {
    std::string group;
    std::string workspace;

    auto operator<=>(const WorkspaceKey&) const = default;
};

struct ExperimentKey {
    std::string group;
    std::string workspace;
    std::string experiment;

    [[nodiscard]] WorkspaceKey parent() const { return {group, workspace}; }
    auto operator<=>(const ExperimentKey&) const = default;
};

struct ClusterKey {
    std::string group;
    std::string workspace;
    std::string cluster;

    [[nodiscard]] WorkspaceKey parent() const { return {group, workspace}; }
    auto operator<=>(const ClusterKey&) const = default;
};

struct JobKey {
    std::string group;
    std::string workspace;
    std::string experiment;
    std::string job;

    [[nodiscard]] ExperimentKey parent() const { return {group, workspace, experiment}; }
    auto operator<=>(const JobKey&) const = default;
};

struct Group {
    std::string name;
    std::string location;
    std::optional<Tags> tags;
    base::Time creation_time;

    bool operator==(const Group&) const = default;
};

struct Workspace {
    WorkspaceKey key;
    std::string location;
    std::optional<Tags> tags;
    base::Time creation_time;

    bool operator==(const Workspace&) const = default;
};

struct Experiment {
    ExperimentKey key;
    base::Time creation_time;

    bool operator==(const Experiment&) const = default;
};

// What becomes of the jobs on a node that a resize takes away.
enum class NodeDeallocationOption { requeue, terminate, wait_for_job_completion };

struct ManualScale {
    int target_node_count = 0;
    NodeDeallocationOption node_deallocation_option = NodeDeallocationOption::requeue;

    bool operator==(const ManualScale&) const = default;
};

struct AutoScale {
    int minimum_node_count = 0;
    int maximum_node_count = 0;
    int initial_node_count = 0;

    bool operator==(const AutoScale&) const = default;
};

enum class VmPriority { dedicated, low_priority };

struct Cluster {
    ClusterKey key;
    std::string vm_size;  // as the user wrote it
    VmPriority vm_priority = VmPriority::dedicated;
    // Exactly one of the two is there.
    std::optional<ManualScale> manual = ManualScale{};
    std::optional<AutoScale> auto_scale;
    std::string admin_user_name;
    std::string admin_user_ssh_public_key;  // empty: none
    // The "properties" of cluster.json as JSON text, without secrets; empty: made from flags alone.
    std::string properties_json;
    base::Time creation_time;
    base::Time allocation_state_transition_time;

    bool operator==(const Cluster&) const = default;
};

struct Job {
    JobKey key;
    std::string uuid;
    std::string subscription;
    std::string cluster;  // name in the same workspace; empty: none was named
    std::string tool_type;
    int node_count = 1;
    // The "properties" of job.json as JSON text for `show`, unexpanded and without secrets' values.
    std::string properties_json;
    std::string plan_digest;   // SHA-256 of plan.json, hexadecimal
    std::string slurm_job_id;  // as sbatch said it
    base::Time creation_time;
    std::optional<base::Time> termination_requested;  // the user asked to stop it

    bool operator==(const Job&) const = default;
};

// The JSON spelling: "requeue", "terminate", "waitforjobcompletion"; "dedicated", "lowpriority".
[[nodiscard]] std::string_view to_string(NodeDeallocationOption option);
[[nodiscard]] std::string_view to_string(VmPriority priority);
[[nodiscard]] std::optional<NodeDeallocationOption> node_deallocation_option(std::string_view text);
[[nodiscard]] std::optional<VmPriority> vm_priority(std::string_view text);

}  // namespace batchai::store
