// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "cli/report/names.hpp"
#include "cli/report/volume_flags.hpp"
#include "job/model.hpp"
#include "job/syntax/diagnostic.hpp"
#include "plan/plan.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

// From the words of a command line to a plan: reading the file, the storage account, the cluster,
// the planner. Changes nothing.

namespace batchai::cli {

struct JobFileOptions {
    std::string path;  // "-": standard input
    std::optional<std::string> storage_account_name;
    std::optional<std::string> storage_account_key;  // secret, or "@FILE"
    VolumeFlags volumes;                             // besides the file's
    bool ignore_container = false;
    std::optional<std::string> job_image;  // in place of the file's
};

struct JobText {
    std::string name;  // for messages
    std::string text;
};

[[nodiscard]] base::Result<JobText> read_job_file(const std::string& path);

// A name for a job from its file's: "runs/My job.json" is "My-job"; "job" for standard input.
[[nodiscard]] std::string job_name_from_file(const std::string& path);

// Who is asked what the job's image is: the registry, if it is in one; else nobody whose answer
// needs a network; else nobody. The last two make plans for looking at, not for running.
enum class ImageQuestion { registry, without_network, not_asked };

struct PlanningChoices {
    // The cluster that the job is sent to, if the command line names one; else the file's counts.
    std::optional<std::string> cluster = {};
    bool cluster_must_exist = true;  // unless nothing is submitted
    ImageQuestion image = ImageQuestion::registry;
};

inline constexpr const char* no_uuid = "00000000-0000-0000-0000-000000000000";

struct Planned {
    job::JobSpec spec;
    plan::Plan plan;
    std::string json;                           // of the plan, as it goes to plan.json
    std::string digest;                         // SHA-256 of it
    std::vector<plan::Variable> mount_secrets;  // see plan::Made
};

struct Planning {
    std::optional<Planned> planned;  // present iff no diagnostic is an error
    std::vector<job::Diagnostic> diagnostics;
    // All diagnostics and notices, for standard error; empty when there is nothing to say.
    std::string report;
};

// `identity` without its cluster, which is found here.
[[nodiscard]] base::Result<Planning> plan_job(const store::Store& store, const site::Site& site,
                                              const JobText& text, const JobFileOptions& options,
                                              const PlanningChoices& choices,
                                              const plan::Identity& identity,
                                              const std::string& job_directory);

// Writes plan.json and, if the job has any, secrets.json and the credentials of its registry, all
// 0600, into the job's directory.
[[nodiscard]] base::Result<void> write_plan(const std::string& job_directory,
                                            const Planned& planned);

// The absolute path of this program.
[[nodiscard]] std::string launcher_path();

// The variables of this process that sbatch hands on to the job, for plan::Submission. Not among
// them: what Slurm or a job of ours has set for the very job in which this process runs, which
// means something else in the new one; credentials of a storage account; and values that are not
// UTF-8, which no plan can hold.
[[nodiscard]] std::map<std::string, std::string> login_environment();

}  // namespace batchai::cli
