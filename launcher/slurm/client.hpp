// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/error.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "slurm/job_accounts.hpp"
#include "slurm/job_comments.hpp"
#include "slurm/job_devices.hpp"
#include "slurm/job_settings.hpp"
#include "slurm/parse.hpp"
#include "slurm/status.hpp"

// Slurm's commands, and what they say. The client runs them. The other parts are:
//
//   client/              what the client's functions do: one file for each kind of call
//   status.hpp           Slurm's answers as values
//   parse.hpp            reads the text that the commands print
//   messages.hpp         what the commands print on standard error, and what it means
//   hostlist.hpp         expands lists of hosts
//   array_indexes.hpp    the numbers of the tasks of an array job
//   job_outcome.hpp      the state of a job in the terms of Batch AI
//   node_view.hpp        the states of a cluster and its nodes in the terms of Batch AI
//   pending_reason.hpp   why a job waits, in words
//   requeue_delay.hpp    how long a job waits that was queued again
//   job_settings.hpp     what Slurm holds of a job's request
//   job_devices.hpp      the devices of a job on each node
//   job_accounts.hpp     what a job has used by Slurm's accounting
//   job_comments.hpp     the comments on jobs that Slurm's accounting keeps
//   cores.hpp            how many cores nodes have, and how many are allocated
//   scaling.hpp          chooses the nodes of a cluster that are powered up and down
//   release.hpp          a release of Slurm as numbers
//   file_pattern.hpp     the names of output files, as Slurm takes them
//   this_job.hpp         the job that this process belongs to
//   own_environment.hpp  takes out of an environment what we have set for a job
namespace batchai::slurm {

// Returns our environment without the variables that change the meaning or output of Slurm's
// commands (SLURM_*, SBATCH_*, SQUEUE_*, SINFO_*, SACCT_*, SALLOC_*, SRUN_*, SCANCEL_*,
// SCONTROL_*), and without what a job around this process has set for itself, such as its plan, its
// ranks' variables and the options of SPANK plugins: what is submitted is a job of its own. It
// keeps SLURM_CONF, SLURM_CONF_SERVER and SLURM_JWT, which say which Slurm to talk to and as which
// user.
[[nodiscard]] base::Environment scrubbed_environment();

struct NodeFilter {
    std::string partition;   // empty: every partition
    std::string constraint;  // features joined by "&", as plan::Allocation has it; empty: any
    bool hidden = false;     // also partitions that are hidden or that the caller may not use
    std::vector<std::string> names{};  // empty: all nodes
};

// The state of jobs, by Slurm's id.
using Jobs = std::map<std::string, JobStatus>;

// Slurm's configuration: keys and values as `scontrol show config` prints them.
using Configuration = std::map<std::string, std::string, std::less<>>;

// The value of a key; empty if Slurm has none.
[[nodiscard]] std::string configured(const Configuration& configuration, std::string_view key);

// What a node's power state is to become. A node with jobs powers down when they have ended, and
// takes no others until then.
// `usable` lets a node that is drained take jobs again.
enum class NodePower { up, down_when_free, usable };

// A program that is run once on each of some nodes, in an allocation of its own.
struct NodeCommand {
    std::vector<std::string> nodes;
    std::string partition;  // empty: Slurm's default. All nodes must be in it
    std::string account;    // empty: the user's default
    std::string qos;
    base::Arguments arguments;
    // Where the program on node N prints into the files N.out and N.err: a directory that all of
    // them see.
    std::string directory;
    std::chrono::seconds longest_wait{30};  // for the allocation
    std::chrono::minutes time_limit{2};     // of the allocation
};

// Runs Slurm's commands, which are found on PATH, each with the deadline. The errors are refused
// (Slurm said no; the error has its words and a hint), timed_out, and failed (there is no such
// command, no answer, or an answer that cannot be read). A client has no state except its settings,
// so threads may share it.
class Client {
  public:
    explicit Client(std::chrono::milliseconds deadline = std::chrono::seconds(60))
        : deadline_(deadline) {}

    // A client for a command that a person waits for. A Slurm command that takes longer than a
    // second continues only if the controller answers a ping. A stopped slurmctld is therefore
    // reported within five seconds, while a busy one gets its time.
    [[nodiscard]] static Client interactive() {
        Client client;
        client.give_up_early_ = true;
        return client;
    }

    // Checks that slurmctld answers. If it does not, the error says so and what to do. A verb calls
    // this before it changes something.
    [[nodiscard]] base::Result<void> ping() const;

    // Calls sbatch --parsable OPTIONS SCRIPT and returns the new job's id. The batch script also
    // gets `environment`, as far as `options` export it.
    [[nodiscard]] base::Result<JobId> submit(
        const base::Arguments& options, const std::string& script,
        const base::Environment& environment = scrubbed_environment()) const;

    // Calls sbatch --test-only OPTIONS with the script's text, which creates nothing. Returns
    // Slurm's own words about when and where the job would start; empty if it says nothing.
    [[nodiscard]] base::Result<std::string> test_submission(
        const base::Arguments& options, const std::string& script_text,
        const base::Environment& environment = scrubbed_environment()) const;

    // Wherever these functions take a job, its id may also be that of one task of an array job.

    // Calls scancel. It is not an error if the job has ended or Slurm no longer knows it.
    [[nodiscard]] base::Result<void> cancel(const JobId& job) const;

    // Cancels a job, or tasks of an array job, that have not started.
    [[nodiscard]] base::Result<void> cancel_queued(const JobId& job) const;

    // Cancels tasks of an array job, or with `only_queued` those of them that have not started.
    [[nodiscard]] base::Result<void> cancel_tasks(const JobId& array, const std::vector<int>& tasks,
                                                  bool only_queued) const;

    // Returns the caller's jobs that wait or run and whose batch script is this file.
    [[nodiscard]] base::Result<std::vector<ScriptJob>> jobs_of_script(
        const std::string& script) const;

    // Returns whether the job, or a task of it if it is an array job, has not ended.
    [[nodiscard]] base::Result<bool> is_queued(const JobId& job) const;

    // Returns the ids of the caller's jobs that have not ended, and of the tasks of array jobs that
    // have begun. slurmctld looks at no other user's jobs for this.
    [[nodiscard]] base::Result<std::set<std::string>> queued_jobs_of_caller() const;

    // Calls scontrol requeue, which also works for a job that has just ended. Succeeds, too, if the
    // job is in the queue again already.
    [[nodiscard]] base::Result<void> requeue(const JobId& job) const;

    // Does the same, and keeps the job off the nodes as exclude_nodes() does. One scontrol does
    // both: Slurm signals the batch script at once, and when a script that is a shell has died, all
    // of its processes are killed, a few milliseconds after the requeue. If only the nodes are
    // refused, the job is queued again, and this fails.
    [[nodiscard]] base::Result<void> requeue_without(const JobId& job,
                                                     const std::string& hostlist) const;

    // Keeps Slurm from queueing a job again, whatever ends it. The job's user can do so until it
    // has ended, and it is not an error if it has. Nobody can queue the job again after its end,
    // either.
    [[nodiscard]] base::Result<void> forbid_requeue(const JobId& job) const;

    // Returns the id of the job's step that the srun with this process id on this host runs.
    [[nodiscard]] base::Result<std::string> step_of_srun(const JobId& job, pid_t srun) const;

    // Has Slurm send a signal to the tasks of a step, whose id is as step_of_srun() gives it. The
    // step does not end unless the tasks do.
    [[nodiscard]] base::Result<void> signal_step(const std::string& step_id, int signal) const;

    // Makes a running job smaller: takes from it all nodes but these. Slurm ends the job's tasks on
    // the other nodes at once, and refuses to take the first node.
    [[nodiscard]] base::Result<void> keep_nodes(const JobId& job,
                                                const std::vector<std::string>& nodes) const;

    // Returns what only scontrol tells of a job.
    [[nodiscard]] base::Result<JobSettings> settings(const JobId& job) const;

    // Returns and replaces the comment on the job, which its user may do at any time. The comment
    // is empty if it has none, and ends at its first newline.
    [[nodiscard]] base::Result<std::string> comment(const JobId& job) const;
    [[nodiscard]] base::Result<void> set_comment(const JobId& job,
                                                 const std::string& comment) const;
    // Replaces the comment by what `edited` makes of it.
    [[nodiscard]] base::Result<void> edit_comment(
        const JobId& job, const std::function<std::string(std::string_view)>& edited) const;

    // Returns what squeue prints of the job with kThisJobFormat (this_job.hpp).
    [[nodiscard]] base::Result<std::string> queue_of_job(const JobId& job) const;

    // Returns all that Slurm says of a job, for a person to read: what scontrol prints, and what
    // sacct prints if the site keeps accounts.
    [[nodiscard]] base::Result<std::string> all_about(const JobId& job) const;

    // Keeps a job that waits off the nodes, which replace those that the job had to keep off.
    [[nodiscard]] base::Result<void> exclude_nodes(const JobId& job,
                                                   const std::string& hostlist) const;

    // Returns the state of the jobs `ids`, by id. The id of an array job stands for all its tasks,
    // which have ids of their own; those that wait have one entry together. Asks squeue first, and
    // then sacct for the jobs that the queue has forgotten, if the site keeps accounts. A job that
    // neither of them knows has no entry. Neither is asked for a job that `known` has; the answer
    // includes `known`. If accounting does not answer, that is an error, or becomes `unaccounted`
    // and the answer has what the queue knows.
    [[nodiscard]] base::Result<Jobs> jobs(const std::vector<std::string>& ids, Jobs known = {},
                                          std::optional<base::Error>* unaccounted = nullptr) const;

    // Returns what accounting says of the jobs that it knows, if the site keeps accounts. For an
    // array job this has an entry for each of its tasks, some of which the queue may have forgotten
    // while it knows the others.
    [[nodiscard]] base::Result<Jobs> accounted_jobs(const std::vector<std::string>& ids) const;

    // With more jobs than this, jobs_of_caller() saves time.
    static constexpr std::size_t many_jobs = 1000;

    // Returns the state of all jobs of the caller that squeue knows, and of those that were
    // submitted after `since` and that sacct lists within a few seconds. Asks both at the same
    // time. An answer of sacct that is late or refused is left out, so jobs() still has to ask for
    // what is missing.
    [[nodiscard]] base::Result<Jobs> jobs_of_caller(base::Time since) const;

    // Asks Slurm to power the nodes up or down. Slurm does so later, with the site's programs, and
    // passes over nodes for which the request means nothing.
    [[nodiscard]] base::Result<void> set_power(const std::vector<std::string>& nodes,
                                               NodePower power) const;

    // Returns whether Slurm's accounting names the user as an administrator. It is an error if the
    // site keeps no accounts.
    [[nodiscard]] base::Result<bool> is_administrator(const std::string& user) const;

    // Keep a job in the queue, and let it go again. It is not an error if the job has started or
    // ended. The job's user can do both.
    [[nodiscard]] base::Result<void> hold(const JobId& job) const;
    [[nodiscard]] base::Result<void> release(const JobId& job) const;

    // Sets the priority of a job that waits and is not held. A user who is not an operator could
    // only lower it.
    [[nodiscard]] base::Result<void> set_priority(const JobId& job,
                                                  const std::string& priority) const;
    // Returns whether Slurm heeds a --priority of the caller's.
    [[nodiscard]] bool may_choose_priorities() const;

    // Returns the devices of its generic resources that a job has, for each node on which it has
    // any.
    [[nodiscard]] base::Result<JobDevices> devices(const JobId& job) const;

    // Returns what accounting says that a job has used; nothing if the site keeps no accounts, or
    // they do not say it.
    [[nodiscard]] base::Result<std::optional<JobAccounts>> accounts(const JobId& job) const;

    // Returns all runs of each job one of whose comments has `word`, of all users as far as the
    // caller may see their jobs. Of the jobs, those count that were there at some time between
    // `from` and `to`. The answer of a large site may take long: sacct gets no more time than
    // `longest`.
    [[nodiscard]] base::Result<std::vector<CommentedRun>> commented_runs(
        std::string_view word, base::Time from, base::Time to,
        std::chrono::milliseconds longest) const;

    // Returns one entry for each node, sorted by name.
    [[nodiscard]] base::Result<std::vector<NodeStatus>> nodes(const NodeFilter& filter = {}) const;

    // Returns where the slurmd of each of these nodes listens; of all nodes, if none is named.
    [[nodiscard]] base::Result<std::map<std::string, base::Endpoint>> daemons(
        const std::vector<std::string>& nodes) const;

    // Returns what sinfo prints of the cores of a partition's nodes, or of all if it is empty. See
    // cores.hpp.
    [[nodiscard]] base::Result<std::string> core_counts(const std::string& partition) const;

    // Returns Slurm's version, such as "22.05.8".
    [[nodiscard]] base::Result<std::string> version() const;

    [[nodiscard]] base::Result<Configuration> configuration() const;

    // Returns the values that srun's --mpi has here, such as "pmix".
    [[nodiscard]] base::Result<std::vector<std::string>> mpi_types() const;

    // Returns what srun --help prints. It has the options of the plugins that Slurm has loaded.
    [[nodiscard]] base::Result<std::string> help_of_srun() const;

    // Runs the command with srun and returns its exit code, and what srun says on standard error.
    // A held signal ends srun, which cancels the allocation, and is an error.
    [[nodiscard]] base::Result<base::Completed> run_on_nodes(const NodeCommand& command,
                                                             const base::HeldSignals& held) const;

  private:
    [[nodiscard]] base::Result<std::string> admin_level(const std::string& user) const;
    // Parts of Slurm's messages that mean that there is nothing to do.
    using Messages = std::span<const std::string_view>;

    [[nodiscard]] base::Result<base::Completed> ask(const base::Arguments& arguments,
                                                    const std::string& standard_input = {}) const;
    // Runs a command of Slurm's and returns what it prints. It is not an error if the command
    // fails with one of these messages.
    [[nodiscard]] base::Result<std::string> read(const base::Arguments& arguments,
                                                 Messages harmless = {}) const;
    [[nodiscard]] base::Result<void> tell(const base::Arguments& arguments,
                                          Messages harmless = {}) const;
    [[nodiscard]] base::Result<void> change(const JobId& job, const std::string& setting,
                                            Messages harmless = {}) const;
    // Adds what squeue says about the jobs that `filter` selects.
    [[nodiscard]] base::Result<void> read_queue(const std::string& filter, Jobs& into) const;
    [[nodiscard]] base::Result<void> read_accounting(const base::Arguments& filter,
                                                     Jobs& into) const;

    std::chrono::milliseconds deadline_;
    bool give_up_early_ = false;
};

}  // namespace batchai::slurm
