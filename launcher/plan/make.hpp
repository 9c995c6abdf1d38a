// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "image/frozen.hpp"
#include "job/model.hpp"
#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "site/site.hpp"

namespace batchai::plan {

// What each node of a cluster does once after it has started, before the cluster's first job on it.
struct SetupTask {
    std::string command_line;
    std::string std_out_err_path_prefix;  // not expanded
    std::string std_out_err_path_suffix;  // the directory of the logs below it
    std::vector<Variable> environment;    // not expanded
};

// The cluster, a named view of Slurm, to which the job is sent. Without a cluster, the site's
// defaults apply.
struct ClusterView {
    std::string name;
    std::string vm_size;            // as in cluster.json; looked up without regard to case
    std::optional<int> node_limit;  // target node count; a job cannot have more
    // Volumes of every job of the cluster, in addition to the job's own.
    job::MountVolumes mount_volumes = {};
    std::optional<SetupTask> setup_task = {};
};

// Options of Slurm that are not in the job file.
struct SlurmChoices {
    job::SlurmSettings defaults;     // the user's, from config.toml
    job::SlurmSettings flags;        // of `job create`
    std::vector<SlurmOption> words;  // after "--" (plan/sbatch_words.hpp)
};

// Everything about the submission that is not in the job file.
struct Inputs {
    Identity identity;  // the uuid of a dry run is all zeros, to make its output reproducible
    std::optional<ClusterView> cluster;
    std::string job_directory;  // absolute host path
    unsigned int user_id = 0;
    std::string user_name;
    std::string home;  // absolute
    // Absolute; of the command that submits the job. Its tasks start there as well.
    std::string working_directory;
    std::string file_directory;  // of the job file; the working directory for standard input
    std::string storage_root;    // host path of the default storage, $BATCHAI_HOME/storage
    bool ignore_container = false;
    SlurmChoices slurm;
    // What the registry says about the image of containerSettings, and where the image's root will
    // be. Absent if the registry was not asked. The plan can then be shown, but not run.
    std::optional<image::FrozenImage> image;
    // The program that Slurm runs before each task, after the task has joined its container. Empty
    // if there is none, or Slurm was not asked. The plan can then be shown, but not run.
    std::string task_prolog;
    // Further variables that paths and the values of environmentVariables may refer to ("PATH" in
    // "/opt/bin:$PATH"): the submitter's environment, which sbatch passes on to the job. Only
    // values that are referred to get into the plan. For a job in a container the image's variables
    // win.
    std::map<std::string, std::string> login_environment;
};

struct Made {
    std::optional<Plan> plan;  // present iff no diagnostic is an error
    std::vector<job::Diagnostic> diagnostics;
    // The credentials that the plan's mounts refer to by RemoteVolume::secret_name, and the URL of
    // its webhook. They go into "secrets.json".
    std::vector<Variable> mount_secrets;
    // The points of a sweep. Their digest is not in the plan yet.
    std::optional<Sweep> sweep = {};
};

// Makes the plan of a job for a site. Pure: reads no file and does not ask Slurm. All faults are
// reported at once, as diagnostics at the place in job.json that causes them (position 0:0 if there
// is none). The caller has already replaced the placeholders of the storage account
// (job::apply_storage_account).
[[nodiscard]] Made make(const job::JobSpec& spec, const job::PositionTable& positions,
                        const site::Site& site, const Inputs& inputs);

// Returns whether the planner has nothing against the name of the image, its registry and its
// credentials, so that the image may be asked for before the job is planned.
[[nodiscard]] bool may_ask_for_image(const job::ContainerSettings& settings,
                                     const site::Site& site);

// Returns the options that the site gives to each job, before those of a VM size.
[[nodiscard]] std::vector<SlurmOption> site_options(const site::Site& site);

// Returns the path of the file that `batchai run` reads: "<plan directory>/plan.json".
[[nodiscard]] std::string plan_path(const Plan& plan);

// Returns the batch script that is given to `sbatch` and printed by --dry-run. It is a fixed text
// that execs `batchai run` with the plan's path and digest as quoted words. `launcher` is the
// absolute path of the batchai program. `attempts_before` is for an array that runs tasks of an
// earlier one again.
[[nodiscard]] std::string batch_script(const Plan& plan, const std::string& launcher,
                                       const std::string& plan_digest, int attempts_before = 0);

// Returns the options of sbatch for this plan, without the program's name and the script: where the
// job's files are, and the allocation (plan/slurm_options.hpp). Each option is one element of the
// argument vector; no shell reads them.
[[nodiscard]] std::vector<std::string> sbatch_options(const Plan& plan);

}  // namespace batchai::plan
