// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <utility>

namespace batchai::store {

// What lies in a job's directory (mode 0700), which is the `job_directory` of its plan.
class JobFiles {
  public:
    explicit JobFiles(std::filesystem::path directory) : directory_(std::move(directory)) {}

    [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }
    // The store's own record; its presence is what makes the job exist.
    [[nodiscard]] std::filesystem::path record() const { return directory_ / "job.json"; }
    [[nodiscard]] std::filesystem::path plan() const { return directory_ / "plan.json"; }
    [[nodiscard]] std::filesystem::path batch_script() const { return directory_ / "batch.sh"; }
    // Values of secret variables; always mode 0600.
    [[nodiscard]] std::filesystem::path secrets() const { return directory_ / "secrets.json"; }
    // Output of the batch script itself (sbatch --output).
    [[nodiscard]] std::filesystem::path slurm_log() const { return directory_ / "slurm.log"; }
    [[nodiscard]] std::filesystem::path attempts() const { return directory_ / "attempts"; }
    // AZ_BATCHAI_SHARED_JOB_TEMP.
    [[nodiscard]] std::filesystem::path shared() const { return directory_ / "shared"; }

  private:
    std::filesystem::path directory_;
};

}  // namespace batchai::store
