// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

// A Plan is everything that a job needs to run. It is computed once, at submission. It is a value
// that can be printed (--dry-run), compared, stored as JSON beside the job, and read back on every
// node. It has paths, sizes and variables; it makes no Slurm call and has no values of secrets.
namespace batchai::plan {

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
};

struct Variable {
    std::string name;
    std::string value;

    bool operator==(const Variable&) const = default;
};

// Returns the value of a variable, or null. If the variable is set more than once, the last value
// counts, as in the job's environment.
[[nodiscard]] const std::string* last_value(const std::vector<Variable>& environment,
                                            std::string_view name);

// The nice value for the schedulingPriority normal, which is also that of a file without this key.
constexpr int normal_nice = 100;

// Who has chosen an option of Slurm. These are in the order of precedence: an option of a later
// origin replaces one of an earlier origin.
enum class Origin : std::uint8_t {
    launcher,
    site,          // site.lua, or a default of it
    vm_size,       // the VM size of the job's cluster, in site.lua
    user_config,   // the user's config.toml
    job_file,      // job.json
    flag,          // an option of `job create`
    sbatch_words,  // the words after "--" of `job create`
};

// An option of sbatch, by its long name without the dashes.
struct SlurmOption {
    std::string name;
    std::string value;  // empty: the option has none
    Origin origin = Origin::launcher;
    // An option that the user gives to sbatch, srun or salloc wins over this one. If this is set,
    // the value is the job file's, and the user's must be the same.
    bool must_agree = false;
    // The key of job.json that the value comes from, if it is not in "slurm".
    std::string_view key = {};

    bool operator==(const SlurmOption&) const = default;
};

// What the job asks of Slurm. Zero means that it does not ask for this.
struct Allocation {
    int nodes = 1;
    int processes = 1;           // ranks on all nodes together
    int processes_per_node = 1;  // at most, on any node
    int cpus_per_process = 0;
    int nice = normal_nice;  // schedulingPriority: low 1000, high 0 (users cannot ask for less)
    std::chrono::minutes time_limit{0};
    // What the site, the user's defaults, the job file and the command line choose of Slurm's other
    // options. Each name is there once, with the choice that takes precedence.
    std::vector<SlurmOption> options;

    bool operator==(const Allocation&) const = default;
};

enum class MountScope { job, cluster };

// Remote storage that rclone shows as a directory. Each node runs its own rclone, as the user.
struct RemoteVolume {
    std::string backend;            // rclone's name for it: "smb", "azureblob", "webdav", …
    std::string path;               // share or container, then the directory in it
    std::vector<Variable> options;  // of the backend, by rclone's names; without secrets
    std::string secret_option;      // option that takes the credential; empty: there is none
    // Where the credential is: an entry of "secrets.json" in the plan's directory (mode 0600), or a
    // file that the site names. One of the two is set if secret_option is.
    std::string secret_name;
    std::string credentials_file;
    int file_mode = 0777;
    int directory_mode = 0777;

    bool operator==(const RemoteVolume&) const = default;
};

// A directory of the host, or remote storage, that is mounted below the job's (or cluster's) mount
// root. Only the job's private mount namespace has the mount.
struct Mount {
    std::string kind;    // the key in job.json: "azureFileShares", "fileServers", …
    std::string name;    // the user's name for it in messages: a URL or share name
    std::string source;  // absolute directory on every node; empty for remote storage
    std::string target;  // relative, below the mount root; no "." or ".." component
    MountScope scope = MountScope::job;
    bool read_only = false;
    // The source is in the launcher's default storage and is made on first use. Any other source
    // that is missing is an error.
    bool create_source = false;
    // The part of `source` that is trusted. The rest comes from the job file, and no symbolic link
    // in it may lead out of this part. Empty: all of `source` is trusted.
    std::string source_root;
    bool no_execute = false;
    std::optional<RemoteVolume> remote;
    int mount_seconds = 20;   // timeout for mounting
    int flush_seconds = 300;  // timeout for storing the rest on remote storage when a step ends

    bool operator==(const Mount&) const = default;
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
};

// One of outputDirectories. If `create` is set, it is made before the preparation step.
struct OutputDirectory {
    std::string id;
    std::string path;       // as the job sees it: AZ_BATCHAI_OUTPUT_<id>
    std::string path_host;  // empty if not on shared storage
    bool create = true;

    bool operator==(const OutputDirectory&) const = default;
};

// A directory or file of each node that the container also has, besides what every container needs.
struct HostBind {
    std::string source;  // absolute, on the node
    std::string target;  // absolute, in the container
    bool read_only = false;
    bool optional = false;  // skipped on a node without this source

    bool operator==(const HostBind&) const = default;
};

// The container that every process of the job runs in. The image's configuration is frozen here at
// submission, so that every node and every attempt runs the same container.
struct Container {
    std::string image;  // as the user wrote it, for messages
    // "sha256:…" or "local:…" of the image's manifest, see image/cache.hpp; empty for a squashfs
    // file or a directory.
    std::string digest;
    // The source of the import in skopeo's notation, pinned to the digest if that is possible:
    // "docker://registry/repository@sha256:…", "oci:/dir:tag". Empty without a digest.
    std::string source;
    // Host path of a squashfs file, or of a directory that is a root file system. With a digest it
    // is a file in the image cache, which is made before the first step needs it.
    std::string root;
    bool root_is_directory = false;
    // For the import at the job's start, if the image is no longer in the cache by then.
    bool insecure_registry = false;       // no TLS, or certificates are not checked
    std::int64_t cache_limit = 0;         // limit in bytes of the directory of `root`; 0: none
    std::vector<Variable> environment;    // the image's own
    std::vector<std::string> entrypoint;  // prepended to each command; empty: none, or not wanted
    std::string working_directory;        // empty: that of the Slurm task, if the image has it
    std::int64_t shm_bytes = 0;           // size of /dev/shm; 0: use that of the node
    bool ranks_as_root = false;           // ranks run as root in the container, not as the user
    std::vector<HostBind> binds;          // the site's
    bool inject = true;                   // the node's libmpi_bridge is mounted in it
    // If `root` is in the site's shared directory of images: the id of the user who fills that
    // directory. -1: `root` is the user's own.
    int root_owner = -1;

    bool operator==(const Container&) const = default;
};

enum class StepKind {
    preparation,  // once per node, before any rank
    ranks,        // processes on all nodes, connected by PMIx
    master,       // one process on the first node (customToolkitSettings)
    // One process on each of the first nodes, beside the ranks (tensorFlowSettings). These
    // processes do not end by themselves: they are ended after the ranks.
    parameter_servers,
};

// One call of srun. `command` is the user's text with shell semantics and becomes one argument of
// `/bin/bash -c`. Everything that the launcher adds to that text is quoted.
struct Step {
    StepKind kind = StepKind::ranks;
    std::string command;
    int processes = 1;
    int processes_per_node = 1;
    bool pmix = false;
    // File names below stdouterr. "%N" stands for the node's name (one file per node), and "%t" for
    // the number of the process (one file per rank).
    std::string stdout_name;
    std::string stderr_name;

    bool operator==(const Step&) const = default;
};

// The setup task of the job's cluster, which each node does once after it has started.
struct NodeSetup {
    std::string command;  // for a shell
    // Names the marker on the node. It depends on the task, so a changed task is done again.
    std::string key;
    std::string log_directory;  // host path; empty: the logs are among the job's

    bool operator==(const NodeSetup&) const = default;
};

// When the job is run again after a failure.
struct Retry {
    std::vector<std::string> on;  // words of job::retry_causes, and exit codes: "75", "130-140"
    int max = 3;                  // how often, at most
    bool exclude_failed_nodes = false;
    // Host path in which the job makes progress; empty: nobody looks.
    std::string progress_directory;
    int attempts_without_progress = 2;

    bool operator==(const Retry&) const = default;
};

// The signal that the ranks get before the time limit, and when the job is pre-empted.
struct Checkpoint {
    int signal = 0;
    int seconds_before = 0;

    bool operator==(const Checkpoint&) const = default;
};

// Software of the nodes, or of the container, that each node sets up for the job's processes.
struct Software {
    std::vector<std::string> modules;       // in the order in which they are loaded
    std::vector<std::string> module_paths;  // searched before others
    bool purge = false;                     // unloads first what is loaded
    // At most one of these four is set. Paths are as the job sees them.
    std::string conda_environment;  // a name
    std::string conda_prefix;
    std::string venv;
    std::string uv_project;
    std::vector<std::string> uv_extras;
    std::vector<std::string> uv_groups;
    std::string python = "python3";  // whose version is recorded: what the ranks run
    int seconds = 600;               // limit for all of it

    bool operator==(const Software&) const = default;
};

// A copy of a directory, made when the job is submitted (launcher/snapshot).
struct Snapshot {
    std::string source;                // on the host that submits the job
    std::string directory;             // host path of the copy
    std::string working_directory;     // of the job's processes, in the copy; empty: Slurm's
    std::vector<std::string> exclude;  // patterns of what is not copied
    std::int64_t max_bytes = 0;
    std::int64_t max_files = 0;

    bool operator==(const Snapshot&) const = default;
};

// Is told of the job's end.
struct Webhook {
    std::string secret_name;  // entry of "secrets.json" that has the URL
    bool text_only = false;
    bool only_failures = false;
    bool over_http = false;  // the site allows a URL without TLS

    bool operator==(const Webhook&) const = default;
};

// The site's checks of the job's nodes, before the preparation.
struct HealthChecks {
    std::string directory;  // of the programs, on each node
    int time_limit = 30;    // for each, in seconds
    int total_time_limit = 120;
    int retries = 2;  // how often the job is queued again when a node fails

    bool operator==(const HealthChecks&) const = default;
};

// What a plan says of its sweep. The points themselves are in a file of their own, because every
// process of a job reads the plan.
struct SweepPoints {
    std::vector<std::string> parameters;
    int count = 1;
    std::string digest;  // SHA-256 of the file with the points

    bool operator==(const SweepPoints&) const = default;
};

// Slurm sends this signal to the batch script, which is `batchai run`, when it is time. It is one
// that programs ignore unless they know better.
inline constexpr int checkpoint_notice = SIGURG;

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
    std::optional<Software> software;
    std::optional<Snapshot> snapshot;
    std::optional<Webhook> webhook;
    std::optional<HealthChecks> health;
    std::optional<SweepPoints> sweep;
    // Warnings that the user should see at submission, e.g. that containerSettings are ignored.
    std::vector<std::string> notices;

    bool operator==(const Plan&) const = default;

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
