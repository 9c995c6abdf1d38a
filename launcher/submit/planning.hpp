// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "clusters/volume_flags.hpp"
#include "job/model.hpp"
#include "job/syntax/diagnostic.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "site/site.hpp"
#include "snapshot/listing.hpp"
#include "store/store.hpp"
#include "user/parents.hpp"

// Makes a plan from the options of a command line: reads the file, finds the storage account and
// the cluster, and calls the planner. Only write_plan() changes anything.

namespace batchai::submit {

struct JobFileOptions {
    std::string path;  // "-": standard input
    std::optional<std::string> storage_account_name;
    std::optional<std::string> storage_account_key;  // secret, or "@FILE"
    clusters::VolumeFlags volumes;                   // in addition to the file's
    bool ignore_container = false;
    std::optional<std::string> job_image;   // instead of the file's
    job::SlurmSettings slurm;               // take precedence over the file's
    std::vector<std::string> sbatch_words;  // further options of sbatch
    // The directory of the job's snapshot, instead of the file's; empty: the usual one.
    std::optional<std::string> snapshot;
    std::vector<std::string> sweep;  // "lr=0.1,0.01", besides the file's parameters
    std::optional<int> sweep_max;    // instead of the file's "maxConcurrent"
};

struct JobText {
    std::string name;  // for messages
    std::string text;
};

[[nodiscard]] base::Result<JobText> read_job_file(const std::string& path);

// Derives a job's name from the file's: "runs/My job.json" becomes "My-job". The name is "job" for
// standard input.
[[nodiscard]] std::string job_name_from_file(const std::string& path);

// How the job's image is resolved: by asking its registry if necessary, only if that needs no
// network, or not at all. The last two are for plans that are only displayed.
enum class ImageQuestion { registry, without_network, not_asked };

struct PlanningChoices {
    // The cluster that the command line names, if any. It takes precedence over the file's.
    std::optional<std::string> cluster = {};
    bool cluster_must_exist = true;  // false if nothing is submitted
    ImageQuestion image = ImageQuestion::registry;
    bool read_secrets = true;  // false: "fromEnv" and "fromFile" are not looked at
};

inline constexpr const char* no_uuid = "00000000-0000-0000-0000-000000000000";

struct Planned {
    job::JobSpec spec;
    plan::Plan plan;
    std::optional<store::ClusterKey> cluster;
    std::string json;                           // the plan as it is written to plan.json
    std::string digest;                         // SHA-256 of `json`
    std::vector<plan::Variable> mount_secrets;  // see plan::Made
    std::optional<snapshot::Listing> snapshot;  // what the plan's snapshot will have
    std::optional<plan::Sweep> sweep;
    std::string sweep_json;  // as it is written to sweep.json
    // Names of variables that held secrets. This process no longer has them, and the command that
    // submits the job must not pass them on either.
    std::vector<std::string> secret_variables;
};

struct Planning {
    std::optional<Planned> planned;  // present iff no diagnostic is an error
    std::vector<job::Diagnostic> diagnostics;
    // All diagnostics and notices as text for standard error; empty if there are none.
    std::string report;
};

// Plans the job. `identity` is given without its cluster, which is found here.
[[nodiscard]] base::Result<Planning> plan_job(const store::Store& store, const site::Site& site,
                                              const JobText& text, const JobFileOptions& options,
                                              const PlanningChoices& choices,
                                              const plan::Identity& identity,
                                              const std::string& job_directory);

// Returns the names of the variables from which the file, or the cluster that it names, takes
// secrets. The variables need not be set.
[[nodiscard]] base::Result<std::vector<std::string>> secret_variables_of(const store::Store& store,
                                                                         const site::Site& site,
                                                                         const JobText& text);

// Writes plan.json into the job's directory, and if the job has them, sweep.json, secrets.json,
// the credentials of its registry, and its snapshot. All files but those of the snapshot have mode
// 0600. Calls `tick` now and then; if it fails, so does this function.
[[nodiscard]] base::Result<void> write_plan(const std::string& job_directory,
                                            const Planned& planned,
                                            const std::function<base::Result<void>()>& tick = {});

// Returns the environment of sbatch.
[[nodiscard]] base::Environment submission_environment();

// Returns the absolute path of this program, or "batchai" if it cannot be determined.
[[nodiscard]] std::string launcher_path();

// Returns the variables of this process that sbatch passes on to the job, for plan::Submission.
// Three kinds are left out: variables that Slurm or this program has set for the job in which this
// process runs, since they mean something else in the new job; credentials of a storage account;
// and values that are not UTF-8, which a plan cannot hold.
[[nodiscard]] std::map<std::string, std::string> login_environment();

}  // namespace batchai::submit
