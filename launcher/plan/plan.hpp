// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// A Plan is everything that a job needs to run, computed once at submission: a value that can be
// printed (--dry-run), compared, stored as JSON beside the job, and read back on every node.
// It knows paths, sizes and variables; it knows no Slurm call and holds no secret's value.
namespace batchai::plan {

// The job's place in the resource model; part of its paths and of its Slurm comment.
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
};

struct Variable {
    std::string name;
    std::string value;

    bool operator==(const Variable&) const = default;
};

// What is asked of Slurm. An empty string or zero means: not asked for.
struct Allocation {
    int nodes = 1;
    int processes = 1;           // ranks in all, over all nodes
    int processes_per_node = 1;  // the most on any node
    int cpus_per_process = 0;
    bool exclusive = true;  // Batch AI's nodes belong to one job at a time
    std::string partition;
    std::string constraint;  // node features
    std::string gres;        // per node, as --gres takes it
    std::string account;
    std::string qos;
    int nice = 0;  // schedulingPriority: low 1000, normal 100, high 0 (users cannot go below)
    std::chrono::minutes time_limit{0};
    // The site's own options of sbatch, by their long names; the value may be empty.
    std::vector<Variable> extra_options;

    bool operator==(const Allocation&) const = default;
};

enum class MountScope { job, cluster };

// Storage that rclone shows as a directory, as the user, on each node by itself.
struct RemoteVolume {
    std::string backend;            // as rclone calls it: "smb", "azureblob", "webdav", …
    std::string path;               // share or container, and the directory in it
    std::vector<Variable> options;  // of the backend, by rclone's names; no secret is among them
    std::string secret_option;      // the option that takes the credential; empty: there is none
    // Where the credential is: an entry of the job directory's 0600 file "secrets.json", else a
    // file that the site names. One of them is there if secret_option is.
    std::string secret_name;
    std::string credentials_file;
    int file_mode = 0777;
    int directory_mode = 0777;

    bool operator==(const RemoteVolume&) const = default;
};

// A directory of the host, or remote storage, that appears below the job's (or cluster's) mount
// root, in the job's private mount namespace only.
struct Mount {
    std::string kind;    // the key in job.json: "azureFileShares", "fileServers", …
    std::string name;    // what the user calls it, for messages: a URL or share name
    std::string source;  // absolute directory on every node; empty for remote storage
    std::string target;  // relative, below the mount root; no "." or ".." component
    MountScope scope = MountScope::job;
    bool read_only = false;
    // The source is the launcher's own default storage: made on first use instead of being an
    // error.
    bool create_source = false;
    // The part of `source` that the site vouches for; what comes after it may not lead out of it.
    // Empty: all of it.
    std::string source_root;
    bool no_execute = false;
    std::optional<RemoteVolume> remote;
    int mount_seconds = 20;   // after which it counts as failed
    int flush_seconds = 300;  // for what remote storage has not got yet when a step ends

    bool operator==(const Mount&) const = default;
};

// Where things are. "Node" paths exist on each node by themselves; "host" paths are seen by
// every node and by the login node (a shared file system).
struct Directories {
    std::string node_root;       // node path: root of this user's jobs, <site>/batchai-<uid>
    std::string job_temp;        // node path: AZ_BATCHAI_JOB_TEMP, kept from preparation to ranks
    std::string mount_root;      // node path: AZ_BATCHAI_MOUNT_ROOT (cluster-level mounts)
    std::string job_mount_root;  // node path: AZ_BATCHAI_JOB_MOUNT_ROOT
    std::string job_directory;   // host path: the job's attempts, logs and records
    // Host path: the frozen plan, secrets and registry credentials. The job's directory, but for a
    // task of an array job, which shares them with the other tasks.
    std::string plan_directory;
    std::string shared_job_temp;  // host path: AZ_BATCHAI_SHARED_JOB_TEMP
    std::string stdouterr;        // as the job sees it: AZ_BATCHAI_STDOUTERR_DIR
    // host path of the same; empty when the prefix is on node-local storage (not listable).
    std::string stdouterr_host;

    bool operator==(const Directories&) const = default;
};

// outputDirectories: made before preparation.
struct OutputDirectory {
    std::string id;
    std::string path;       // as the job sees it: AZ_BATCHAI_OUTPUT_<id>
    std::string path_host;  // empty when not on shared storage
    bool create = true;

    bool operator==(const OutputDirectory&) const = default;
};

// A directory or file of each node that the container shows besides what it must have.
struct HostBind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, inside
    bool read_only = false;
    bool optional = false;  // passed over on a node that has no such source

    bool operator==(const HostBind&) const = default;
};

// The container that every process of the job runs in. All that the image says is frozen here at
// submission, so that each node and each attempt runs the same.
struct Container {
    std::string image;   // as the user wrote it, for messages
    std::string digest;  // "sha256:…" of the image's manifest; empty for a file or directory
    // What it is imported from, as skopeo names it, pinned to the digest where that is possible:
    // "docker://registry/repository@sha256:…", "oci:/dir:tag". Empty without a digest.
    std::string source;
    // host path: a squashfs file, or a directory that is a root file system. With a digest it is in
    // the image cache, and made there before the first step needs it.
    std::string root;
    bool root_is_directory = false;
    // For the import at the job's start, should the image have gone from the cache by then.
    bool insecure_registry = false;       // without TLS, or without a look at certificates
    std::int64_t cache_limit = 0;         // bytes of the directory that `root` is in; 0: no limit
    std::vector<Variable> environment;    // the image's own
    std::vector<std::string> entrypoint;  // put before each command; empty: none, or not wanted
    std::string working_directory;        // empty: where Slurm puts the task, if the image has it
    std::int64_t shm_bytes = 0;           // size of /dev/shm; 0: the node's own is used
    bool ranks_as_root = false;           // root inside for ranks too; else the user's own uid
    std::vector<HostBind> binds;          // the site's
    bool inject = true;                   // the node's libmpi_bridge is shown inside
    // User id of who fills the site's shared directory of images when `root` is in it; -1: `root`
    // is the user's own.
    int root_owner = -1;

    bool operator==(const Container&) const = default;
};

enum class StepKind {
    preparation,  // once per node, before any rank
    ranks,        // processes over all nodes, wired by PMIx
    master,       // one process on the first node (customToolkitSettings)
};

// One srun. `command` is the user's text with shell semantics; it is given to `/bin/bash -c` as
// one argument, and nothing of ours is ever pasted into it unquoted.
struct Step {
    StepKind kind = StepKind::ranks;
    std::string command;
    int processes = 1;
    int processes_per_node = 1;
    bool pmix = false;
    // File names below stdouterr; "%N" stands for the node's name (one file per node).
    std::string stdout_name;
    std::string stderr_name;

    bool operator==(const Step&) const = default;
};

struct Plan {
    Identity identity;
    std::string tool_type;     // "horovod", "mpi", "custom"
    std::string mpi = "pmix";  // how srun wires the ranks, as its --mpi= takes it
    Allocation allocation;
    Directories directories;
    std::vector<Mount> mounts;
    std::optional<Container> container;  // none: directly on the nodes
    std::vector<OutputDirectory> outputs;
    // For every process of the job, in order, expanded as far as is known at submission. Nodes add
    // AZ_BATCHAI_NUM_GPUS, AZ_BATCH_NODE_ID; `batchai run` adds the host list and master.
    std::vector<Variable> environment;
    // Names of variables whose values are in the job directory's 0600 file "secrets.json".
    std::vector<std::string> secret_names;
    std::vector<Step> steps;  // in order of execution
    // Warnings that the user should see at submission, e.g. that containerSettings are ignored.
    std::vector<std::string> notices;

    bool operator==(const Plan&) const = default;

    // The host path of a path as the job sees it (longest mount target wins, by whole components),
    // or nothing when it is on node-local or remote storage.
    [[nodiscard]] std::optional<std::string> host_path(std::string_view job_path) const;

    // Where a path as the job sees it is mounted, and its rest below that; no mount: nowhere.
    struct Place {
        const Mount* mount = nullptr;
        std::string rest;  // without leading slash
    };
    [[nodiscard]] Place place_of(std::string_view job_path) const;
};

}  // namespace batchai::plan
