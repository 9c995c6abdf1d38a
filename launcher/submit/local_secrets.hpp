// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

#include "job/model.hpp"
#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"
#include "submit/submission.hpp"

// Secrets that a job file takes from the submitter's environment ("fromEnv") and files
// ("fromFile"). Only this process reads them. From here on they are treated as if the file had
// their values.

namespace batchai::submit {

// Where secrets may be: a job file, and the volumes of the job's cluster.
struct SecretHolders {
    job::JobSpec& spec;
    job::MountVolumes* of_cluster = nullptr;  // null: there is none
};

[[nodiscard]] SecretHolders holders_of(Submission& submission);

// Sets the values. What cannot be read is reported at its place; all other secrets are read. Each
// variable that is named is removed from this process's environment, so that neither Slurm nor the
// job gets it, and the memory that /proc shows of it is overwritten.
[[nodiscard]] std::vector<job::Diagnostic> read_local_secrets(const SecretHolders& holders,
                                                              const job::PositionTable& positions);

// Returns the paths of the files that `fromFile` names, as absolute paths.
[[nodiscard]] std::vector<std::string> secret_files(const SecretHolders& holders);

// Returns the names of the variables that `fromEnv` names, each once.
[[nodiscard]] std::vector<std::string> secret_variables(const SecretHolders& holders);

// Returns the names of the variables from which the submission's file, or the cluster that it
// names, takes secrets. The variables need not be set. Nothing else of the submission is done.
[[nodiscard]] base::Result<std::vector<std::string>> secret_variables_of_file(
    Submission& submission);

}  // namespace batchai::submit
