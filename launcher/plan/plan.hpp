// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/record.hpp"
#include "base/variable.hpp"
#include "plan/allocation.hpp"
#include "plan/container.hpp"
#include "plan/mount.hpp"
#include "plan/steps.hpp"

// A Plan is everything that a job needs to run. It is computed once, at submission. It is a value
// that can be printed (--dry-run), compared, stored as JSON beside the job, and read back on every
// node. It has paths, sizes and variables; it makes no Slurm call and has no values of secrets.
//
// allocation.hpp has what it asks of Slurm, mount.hpp its volumes, container.hpp its container, and
// steps.hpp what it runs. Each struct has the table of its keys in plan.json, so a new member needs
// a line in that table and nothing else: the file (plan_file.hpp) and the copies for array tasks
// and nodes (relocate.hpp) follow from it.
namespace batchai::plan {

// Returns the value of a variable, or null. If the variable is set more than once, the last value
// counts, as in the job's environment.
[[nodiscard]] const std::string* last_value(const std::vector<Variable>& environment,
                                            std::string_view name);

// The job's place in the resource model. It is part of the job's paths and of its comment in Slurm.
struct Identity {
    std::string subscription;
    std::string resource_group;
    std::string workspace;
    std::string experiment;
    std::string job;
    std::string cluster;  // empty when the job was not sent to a named cluster
    std::string uuid;     // new for each creation, so that a job of the same name has its own paths

    // "<subscription>/<group>/workspaces/<ws>/experiments/<exp>/jobs/<job>/<uuid>"
    // (jobOutputDirectoryPathSegment of Batch AI).
    [[nodiscard]] std::string path_segment() const;
    bool operator==(const Identity&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("subscription", &Identity::subscription),
                          field("resourceGroup", &Identity::resource_group),
                          field("workspace", &Identity::workspace),
                          field("experiment", &Identity::experiment),
                          field("job", &Identity::job),
                          field("cluster", &Identity::cluster),
                          field("uuid", &Identity::uuid)};
    }
};

// The directories of a job. A "node path" is local to each node. A "host path" is on a shared file
// system, which every node and the login node see.
struct Directories {
    std::string node_root;       // node path: root of the user's jobs, <site>/batchai-<uid>
    std::string job_temp;        // node path: AZ_BATCHAI_JOB_TEMP, which all steps share
    std::string mount_root;      // node path: AZ_BATCHAI_MOUNT_ROOT (cluster-level mounts)
    std::string job_mount_root;  // node path: AZ_BATCHAI_JOB_MOUNT_ROOT
    std::string job_directory;   // host path: the job's attempts, logs and records
    // Host path: the frozen plan, secrets and registry credentials. This is the job's directory,
    // except for a task of an array job, which shares the plan directory with the other tasks.
    std::string plan_directory;
    std::string shared_job_temp;  // host path: AZ_BATCHAI_SHARED_JOB_TEMP
    std::string stdouterr;        // as the job sees it: AZ_BATCHAI_STDOUTERR_DIR
    // Host path of the same directory. Empty if the prefix is on node-local storage, where logs
    // cannot be listed.
    std::string stdouterr_host;

    bool operator==(const Directories&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("nodeRoot", &Directories::node_root),
                          field("jobTemp", &Directories::job_temp),
                          field("mountRoot", &Directories::mount_root),
                          field("jobMountRoot", &Directories::job_mount_root),
                          field("jobDirectory", &Directories::job_directory),
                          field("planDirectory", &Directories::plan_directory),
                          field("sharedJobTemp", &Directories::shared_job_temp),
                          field("stdouterr", &Directories::stdouterr),
                          field("stdouterrHost", &Directories::stdouterr_host)};
    }
};

// One of outputDirectories. If `create` is set, it is made before the preparation step.
struct OutputDirectory {
    std::string id;
    std::string path;       // as the job sees it: AZ_BATCHAI_OUTPUT_<id>
    std::string path_host;  // empty if not on shared storage
    bool create = true;

    bool operator==(const OutputDirectory&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("id", &OutputDirectory::id), field("path", &OutputDirectory::path),
                          field("pathHost", &OutputDirectory::path_host),
                          field("create", &OutputDirectory::create)};
    }
};

struct Plan {
    Identity identity;
    std::string tool_type;     // "horovod", "mpi", "custom", …
    std::string mpi = "pmix";  // value of srun's --mpi= for the ranks
    Allocation allocation;
    // "vm_size=NAME image=NAME", either of which may be empty: what slurmctld checks of the site's
    // policy (lua/job_submit.lua.in) besides what it sees of the job itself.
    std::string declaration;
    Directories directories;
    std::vector<Mount> mounts;
    std::optional<Container> container;  // absent: the job runs directly on the nodes
    std::vector<OutputDirectory> outputs;
    // The variables of every process of the job, in order, expanded as far as is known at
    // submission. The nodes add AZ_BATCHAI_NUM_GPUS and AZ_BATCH_NODE_ID; `batchai run` adds the
    // host list and the master.
    std::vector<Variable> environment;
    // Names of the variables whose values are in "secrets.json" in the plan's directory (mode
    // 0600).
    std::vector<std::string> secret_names;
    std::optional<NodeSetup> node_setup;
    std::vector<Step> steps;  // in order of execution
    std::optional<Retry> retry;
    std::optional<Checkpoint> checkpoint;
    std::optional<Watch> watch;
    std::optional<Software> software;
    std::optional<Snapshot> snapshot;
    std::optional<Webhook> webhook;
    std::optional<HealthChecks> health;
    bool note_failed_nodes = false;  // in Slurm's comment on the job (record/node_fault.hpp)
    std::optional<SweepPoints> sweep;
    // Warnings that the user should see at submission, e.g. that containerSettings are ignored.
    std::vector<std::string> notices;

    bool operator==(const Plan&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("identity", &Plan::identity),
                          field("toolType", &Plan::tool_type),
                          field("mpi", &Plan::mpi),
                          field("declaration", &Plan::declaration),
                          field("allocation", &Plan::allocation),
                          field("directories", &Plan::directories),
                          field("mounts", &Plan::mounts),
                          field("container", &Plan::container),
                          field("outputs", &Plan::outputs),
                          field("environment", &Plan::environment),
                          field("secretNames", &Plan::secret_names),
                          field("nodeSetup", &Plan::node_setup),
                          field("steps", &Plan::steps),
                          field("retry", &Plan::retry),
                          field("checkpoint", &Plan::checkpoint),
                          field("watch", &Plan::watch).or_missing(),
                          field("software", &Plan::software),
                          field("snapshot", &Plan::snapshot),
                          field("webhook", &Plan::webhook),
                          field("health", &Plan::health),
                          field("noteFailedNodes", &Plan::note_failed_nodes).or_missing(),
                          field("sweep", &Plan::sweep),
                          field("notices", &Plan::notices)};
    }

    // Translates a path as the job sees it to a host path. The mount with the longest target wins,
    // by whole components. Returns nothing if the path is on node-local or remote storage.
    [[nodiscard]] std::optional<std::string> host_path(std::string_view job_path) const;

    // The mount that contains a path as the job sees it, and the rest of the path below the mount.
    // `mount` is null if no mount contains the path.
    struct Place {
        const Mount* mount = nullptr;
        std::string rest;  // without leading slash
    };
    [[nodiscard]] Place place_of(std::string_view job_path) const;
};

}  // namespace batchai::plan
