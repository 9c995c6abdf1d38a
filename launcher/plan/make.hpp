// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/model.hpp"
#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"

namespace batchai::plan {

// The named view of Slurm that the job is sent to; without one, the site's defaults apply.
struct ClusterView {
    std::string name;
    std::string vm_size;            // as in cluster.json; looked up without regard to case
    std::optional<int> node_limit;  // the target node count: the planner's cap
    // Which all its jobs have, besides their own.
    job::MountVolumes mount_volumes = {};
};

// Everything about the submission that is not in the file.
struct Submission {
    Identity identity;  // uuid all zeros for a dry run, so that its output is byte-stable
    std::optional<ClusterView> cluster;
    std::string job_directory;  // absolute host path
    unsigned int user_id = 0;
    std::string user_name;
    std::string home;          // absolute
    std::string storage_root;  // host path of the default storage, $BATCHAI_HOME/storage
    bool ignore_container = false;
    // What the registry said of the image of containerSettings, and where its root will be. None:
    // it was not asked, and the plan is good for looking at, not for running.
    std::optional<Container> image;
    // Further names that paths and the values of environmentVariables may refer to ("PATH" in
    // "/opt/bin:$PATH"): the submitter's environment, which sbatch hands on to the job. Only what
    // is referred to gets into the plan. For a job in a container the image's variables win.
    std::map<std::string, std::string> login_environment;
};

struct Made {
    std::optional<Plan> plan;  // present iff no diagnostic is an error
    std::vector<job::Diagnostic> diagnostics;
    // What the plan's mounts refer to by RemoteVolume::secret_name; for "secrets.json".
    std::vector<Variable> mount_secrets;
};

// JobSpec x site -> Plan. Pure: reads no file and asks no Slurm. Faults are diagnostics at the
// place in job.json that causes them (position 0:0 where there is none), all of them at once.
// Placeholders of the storage account are replaced before (job::apply_storage_account).
[[nodiscard]] Made make(const job::JobSpec& spec, const job::PositionTable& positions,
                        const site::Site& site, const Submission& submission);

// The file that `batchai run` reads: "<job directory>/plan.json".
[[nodiscard]] std::string plan_path(const Plan& plan);

// The batch script that `sbatch` gets and --dry-run prints: a fixed text that execs
// `batchai run` with the plan's path and digest as quoted words. `launcher` is the absolute path
// of the batchai program.
[[nodiscard]] std::string batch_script(const Plan& plan, const std::string& launcher,
                                       const std::string& plan_digest);

// The options of sbatch for this plan (no program name, no script): where its files are, and the
// allocation (plan/slurm_options.hpp). One argv word each; never a shell string.
[[nodiscard]] std::vector<std::string> sbatch_options(const Plan& plan);

}  // namespace batchai::plan
