// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "slurm/job_devices.hpp"
#include "slurm/status.hpp"

namespace batchai::slurm {

// Our environment without what changes the meaning or output of Slurm's commands (SLURM_*,
// SBATCH_*, SQUEUE_*, SINFO_*, SACCT_*, SALLOC_*, SRUN_*, SCANCEL_*, SCONTROL_*), but with
// SLURM_CONF, SLURM_CONF_SERVER and SLURM_JWT, which say which Slurm to talk to and as whom.
[[nodiscard]] base::Environment scrubbed_environment();

struct NodeFilter {
    std::string partition;   // empty: every partition
    std::string constraint;  // features joined by "&", as plan::Allocation has it; empty: any
};

// Slurm's commands, found on PATH, each with the deadline. Errors: refused (Slurm answered "no",
// in its words and with a hint), timed_out, failed (no such command, no answer, unreadable answer).
// Holds no state but its settings: threads may share it.
class Client {
  public:
    explicit Client(std::chrono::milliseconds deadline = std::chrono::seconds(60))
        : deadline_(deadline) {}

    // For a person who waits: a question that takes longer than a second goes on only if the
    // controller answers a ping. So a stopped slurmctld is told within three seconds, and a busy
    // one gets its time.
    [[nodiscard]] static Client interactive() {
        Client client;
        client.give_up_early_ = true;
        return client;
    }

    // Whether slurmctld answers; the error says that it does not, and what to do. A verb that is
    // about to change something asks first.
    [[nodiscard]] base::Result<void> ping() const;

    // sbatch --parsable OPTIONS SCRIPT; the new job's id. The environment given to the command is
    // the batch script's too, as far as `options` exports it.
    [[nodiscard]] base::Result<std::string> submit(
        const base::Arguments& options, const std::string& script,
        const base::Environment& environment = scrubbed_environment()) const;

    // scancel; no error for a job that has ended or that Slurm does not know any more.
    [[nodiscard]] base::Result<void> cancel(const std::string& job_id) const;

    // scontrol requeue; also of a job that has just ended.
    [[nodiscard]] base::Result<void> requeue(const std::string& job_id) const;

    // The jobs that Slurm knows of these, by id: squeue first, and sacct for those that the queue
    // has forgotten, if the site keeps accounts. A missing entry: nobody knows it. `since` is a
    // time before which none of them was submitted. With it, and with many ids, squeue and sacct
    // are asked once for all jobs of the caller, both at the same time.
    [[nodiscard]] base::Result<std::map<std::string, JobStatus>> jobs(
        const std::vector<std::string>& ids, std::optional<base::Time> since = {}) const;

    // Which devices of its generic resources a job has, on each node that has any.
    [[nodiscard]] base::Result<JobDevices> devices(const std::string& job_id) const;

    // One entry a node, by name.
    [[nodiscard]] base::Result<std::vector<NodeStatus>> nodes(const NodeFilter& filter = {}) const;

    // "22.05.8"
    [[nodiscard]] base::Result<std::string> version() const;

  private:
    using Jobs = std::map<std::string, JobStatus>;

    [[nodiscard]] base::Result<base::Completed> ask(const base::Arguments& arguments) const;
    // Adds what squeue says of the jobs that `filter` names.
    [[nodiscard]] base::Result<void> read_queue(const std::string& filter, Jobs& into) const;
    [[nodiscard]] base::Result<void> read_accounting(const base::Arguments& filter,
                                                     Jobs& into) const;
    [[nodiscard]] base::Result<Jobs> jobs_of_caller(base::Time since) const;

    std::chrono::milliseconds deadline_;
    bool give_up_early_ = false;
};

}  // namespace batchai::slurm
