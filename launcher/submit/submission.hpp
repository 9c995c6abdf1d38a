// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "clusters/volume_flags.hpp"
#include "image/resolve.hpp"
#include "job/model.hpp"
#include "job/parse.hpp"
#include "job/schema/storage_account.hpp"
#include "job/syntax/diagnostic.hpp"
#include "plan/make.hpp"
#include "plan/plan.hpp"
#include "plan/sweep.hpp"
#include "site/site.hpp"
#include "slurm/client.hpp"
#include "snapshot/listing.hpp"
#include "store/store.hpp"
#include "user/parents.hpp"

// A job on its way from its file into Slurm. All that is known of it is one value, a Submission,
// which the steps of steps.hpp fill one after the other. submission.cpp lists them. Each of them is
// in a file of its own:
//
//   name.cpp           names the job and its directory
//   job_file.cpp       reads the file
//   defaults.cpp       adds what the command line and config.toml say, and the storage account
//   cluster.cpp        finds the cluster
//   local_secrets.cpp  reads what "fromEnv" and "fromFile" name
//   image.cpp          asks for the image, and imports it
//   task_prolog.cpp    asks Slurm what it will run in the container
//   plan.cpp           plans the job
//   freeze.cpp         lists the snapshot, and gives the plan its text and digest
//   reserve.cpp        makes the job's directory and writes what the job needs into it
//   held_job.cpp       submits the job held, records it and lets it go
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
    std::vector<std::string> sweep;    // "lr=0.1,0.01", besides the file's parameters
    std::optional<int> sweep_max;      // instead of the file's "maxConcurrent"
    std::optional<std::string> watch;  // a time, instead of that of "watch.silence"
};

// What becomes of the job, in the order of how much is done for it.
enum class Goal {
    checked,      // `batchai validate`: neither secrets nor images are looked at
    shown,        // `job create --dry-run`: registries are not asked, and nothing is changed
    frozen,       // the plan gets a directory of its own; `batchai run` imports the image itself
    handed_over,  // to sbatch, srun or salloc; the nodes import nothing, so the image is imported
    submitted,    // `job create`
};

struct JobText {
    std::string name;  // for messages
    std::string text;
};

// The cluster that a job is sent to.
struct ChosenCluster {
    store::ClusterKey key;
    plan::ClusterView view;
    std::vector<std::string> notices;
};

struct Submission {
    // Given by the command.
    const store::Store& store;
    const site::Site& site;
    const slurm::Client& slurm;
    Goal goal = Goal::submitted;
    JobFileOptions options = {};
    std::optional<std::string> name = {};  // absent: the job is named after its file
    user::ParentOptions parents = {};
    // The name or id of the cluster. It takes precedence over the file's.
    std::optional<std::string> cluster_name = {};
    bool slurm_is_asked = false;  // --check: what is only shown could be submitted

    // The identity has no cluster before the plan is made. The uuid of a job that gets no directory
    // is all zeros, to make what is shown reproducible.
    plan::Identity identity = {};
    std::filesystem::path directory = {};
    JobText text = {};
    job::JobSpec spec = {};
    job::PositionTable positions = {};
    std::optional<job::StorageAccount> account = {};
    plan::SlurmChoices slurm_choices = {};
    std::optional<ChosenCluster> cluster = {};
    // The names of variables that held secrets, whose values are in `spec` and `cluster`. This
    // process no longer has them, and the command that submits the job must not pass them on.
    std::vector<std::string> secret_variables = {};
    std::optional<image::Resolved> image = {};
    std::optional<base::Error> no_image = {};  // why the image that was asked for is not there
    std::string task_prolog = {};              // see plan::Inputs
    std::optional<plan::Plan> plan = {};
    std::vector<plan::Variable> mount_secrets = {};  // see plan::Made
    std::optional<plan::Sweep> sweep = {};
    std::optional<snapshot::Listing> snapshot = {};  // what the plan's snapshot will have
    std::string sweep_json = {};                     // as it is written to sweep.json
    std::string json = {};                           // the plan as it is written to plan.json
    std::string digest = {};                         // SHA-256 of `json`
    // An interrupt between the reservation and the record leaves nothing behind, and one after it
    // does not hide the job.
    std::optional<base::HeldSignals> held = {};
    std::optional<store::JobReservation> reservation = {};
    store::Job job = {};  // the record

    // What is found in the file, by position. An error ends the submission.
    std::vector<job::Diagnostic> diagnostics = {};

    [[nodiscard]] store::JobKey key() const {
        return {identity.resource_group, identity.workspace, identity.experiment, identity.job};
    }
    // Returns whether no step has found an error in the file so far.
    [[nodiscard]] bool is_sound() const { return !job::has_error(diagnostics); }
};

// Takes the steps that change nothing: from the job's name to the plan's text. Those after an error
// in the file are left out.
[[nodiscard]] base::Result<void> prepare(Submission& submission);

// Takes the steps that are left to reach the goal. The submission was prepared, and is sound.
// Signals that end this process are held from the reservation of the job's name on.
[[nodiscard]] base::Result<void> carry_out(Submission& submission);

// The caller has said, or will say without delay, which job has been submitted. Signals have their
// effect again. If one that has come ends this process, which job it is is said before.
void let_signals_come(Submission& submission);

// Returns the diagnostics of a submission that was prepared, and the plan's notices, as text for
// standard error; empty if there are none.
[[nodiscard]] std::string messages(const Submission& submission);

}  // namespace batchai::submit
