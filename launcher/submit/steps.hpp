// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/error.hpp"
#include "submit/submission.hpp"

// The steps of a submission, in the order in which submission.cpp takes them. What a step finds
// wrong with the file is a diagnostic; any other failure is its error.
namespace batchai::submit {

// Names the job, its parents and its directory. A name that is derived from the file's and is taken
// gets a number. A name on the command line that is taken is refused.
[[nodiscard]] base::Result<void> name_job(Submission& submission);

[[nodiscard]] base::Result<void> read_job_file(Submission& submission);
// Does what read_job_file() does, with a text that was read.
void parse_text(Submission& submission, JobText text);

// Adds to the spec what the command line says, except for the image, and replaces the placeholders
// of the storage account. Collects the options of Slurm that are not in the file.
[[nodiscard]] base::Result<void> add_defaults(Submission& submission);

// A job need not have a cluster. The cluster of a job that is only shown need not exist.
[[nodiscard]] base::Result<void> find_cluster(Submission& submission);

// Reads the secrets into `spec` and `cluster`.
[[nodiscard]] base::Result<void> read_secrets(Submission& submission);

// Asks for the image, unless the planner refuses its name or credentials. Whether it is there is
// said after the planner's faults.
[[nodiscard]] base::Result<void> resolve_image(Submission& submission);

// Asks Slurm for the program that it will run before each task of a job with a container.
[[nodiscard]] base::Result<void> ask_for_task_prolog(Submission& submission);

// Calls the planner, once.
[[nodiscard]] base::Result<void> make_plan(Submission& submission);

// Lists the snapshot, and fixes the text and the digest of the plan.
[[nodiscard]] base::Result<void> freeze(Submission& submission);

// Makes the job's directory, with all that the job needs in it.
[[nodiscard]] base::Result<void> reserve(Submission& submission);

// Imports the image unless it is in the cache. The nodes do not import images, and the user's
// script may never call `batchai run`. At this point no allocated node waits for the import. If it
// fails, the job's directory is removed.
[[nodiscard]] base::Result<void> import_image(Submission& submission);

// Submits the job and records it.
[[nodiscard]] base::Result<void> submit_job(Submission& submission);

}  // namespace batchai::submit
