// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/network.hpp"
#include "base/process.hpp"
#include "image/cache.hpp"
#include "plan/elastic.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/node_fault.hpp"
#include "record/rank_logs.hpp"
#include "run/logs.hpp"
#include "run/srun/step.hpp"
#include "run/tensorflow/held_ports.hpp"
#include "slurm/this_job.hpp"

namespace batchai::run {

// The options of `batchai run`.
struct RunOptions {
    std::string plan_path;       // absolute
    std::string digest;          // SHA-256 of the plan file, 64 hexadecimal digits
    image::InUse images_in_use;  // asked when an import has to make room in the cache
    int attempts_before = 0;     // in an earlier job of Slurm that has run this task of an array
};

using Lookup = std::function<std::optional<std::string>(const std::string& name)>;

// Refuses with one clear message if the allocation has another number of nodes than the plan. Two
// sources that disagree about a size are an error, and the message gives both values.
[[nodiscard]] base::Result<void> check_size(const slurm::ThisJob& granted, const plan::Plan& plan);

// Looks up a variable of this process's environment.
[[nodiscard]] std::optional<std::string> from_environment(const std::string& name);

// Keeps the attempt's record on disk up to date. A record that cannot be written only causes a
// warning: a full disk must not fail the job. last_words.hpp has what then tells of its end.
class Journal {
  public:
    Journal(record::JobFiles files, record::Attempt attempt);

    [[nodiscard]] const record::Attempt& attempt() const { return attempt_; }
    // Returns whether the disk has what the last call was to write.
    [[nodiscard]] bool is_saved() const { return is_saved_; }

    void begin_phase(std::string_view name);
    // Does not save the record, because the begin of the next phase or the end of the attempt
    // follows at once and saves it. A separate write would make every job wait for the disk before
    // its ranks start.
    void end_phase(int exit_code);
    // Does not save the record either.
    void software_set_up(record::Software software);
    void restarted(record::Restart restart);
    void lost(record::Loss loss);
    void alarmed(record::Alarm alarm);
    // Records why the attempt ends while its last phases still run, which may be killed.
    void ending(record::EndedBy by, const record::Failure& failure);
    void retried(record::Retried retried);
    // Does not save the record either.
    void warned(std::vector<std::string> warnings);
    // Records the end of the attempt. `failure` is null unless the attempt failed; what ending()
    // has recorded is then forgotten.
    void finish(int exit_code, record::EndedBy by, const record::Failure* failure);

  private:
    void save();

    record::JobFiles files_;
    record::Attempt attempt_;
    bool is_saved_ = true;
};

// Where the ranks start: on all nodes of the allocation but the spare ones or, once they have been
// started again, on those that were chosen then.
struct Place {
    std::vector<std::string> nodes;
    std::vector<std::string> addresses;  // of each node
    int restarts = 0;                    // how often the ranks have been started again
    std::vector<std::string> spares;     // nodes that wait to take the place of one of these
};

// Looks up an address of each of these nodes.
using AddressesOf = std::function<std::vector<std::string>(const std::vector<std::string>& nodes)>;

// Looks them up by the names alone. slurm::addresses_of() asks Slurm, too.
[[nodiscard]] std::vector<std::string> addresses_by_name(const std::vector<std::string>& nodes);

[[nodiscard]] Place place_on(std::vector<std::string> nodes, int restarts = 0,
                             std::vector<std::string> spares = {},
                             const AddressesOf& addresses_of = addresses_by_name);

// Returns the place of the first start: the first nodes of the allocation. The others are spare.
[[nodiscard]] Place first_place(const plan::Allocation& asked,
                                const std::vector<std::string>& granted,
                                const AddressesOf& addresses_of = addresses_by_name);

// Ports of the first node, where this program runs.
struct Ports {
    std::optional<base::ReservedPort> job;    // of AZ_BATCH_MASTER_NODE, for the job's own use
    std::optional<base::ReservedPort> ranks;  // MASTER_PORT
};

// Knows why a job is ended from outside.
class OutsideWord {
  public:
    virtual ~OutsideWord() = default;
    // Returns nothing while the job is not being ended.
    [[nodiscard]] virtual std::optional<record::EndedBy> why_job_ends() = 0;
    // Returns whether Slurm has said in this attempt that the user ends the job. Asks nobody.
    [[nodiscard]] virtual bool user_ends_job() = 0;
};

class HostUpdates;

// What the phases of an attempt share. The objects it refers to outlive it.
struct Context {
    const plan::Plan& plan;
    const RunOptions& options;
    const slurm::ThisJob& granted;
    StepRunner& steps;
    OutsideWord& outside;
    LogDirectory& logs;
    ExecutionLog& log;
    std::optional<plan::Elastic> elastic;
    Ports ports;
    Place place;
    std::optional<HeldPorts> held_ports{};  // of a TensorFlow job with several processes
    HostUpdates* host_updates = nullptr;    // of an elastic job
    int earlier_restarts = 0;               // of the ranks, within the attempts before this one
    std::vector<std::string> bad_nodes{};   // that have been left for spare ones
    std::function<void(record::Alarm)> alarmed = [](const record::Alarm&) {};  // records it
    std::function<void(record::Loss)> lost = [](const record::Loss&) {};       // the same
    // Notes that a node is bad, for the admin (blame/node_faults.hpp).
    std::function<void(const std::string& node, record::NodeFaultKind)> node_failed =
        [](const std::string&, record::NodeFaultKind) {};
    // Has the ranks start without these nodes, on spare ones. Returns false, and changes nothing,
    // if there are too few.
    std::function<bool(const std::vector<std::string>&)> leave_out =
        [](const std::vector<std::string>&) { return false; };
    // Returns why the ranks, if they were ended for it, would not start again without this node;
    // empty: they would.
    std::function<std::string(const std::string&)> why_not_without = [](const std::string&) {
        return std::string("the job does not start again");
    };
    base::FileDescriptor claim_of_logs;  // valid if their directory is in the job's temporary one

    [[nodiscard]] int attempt() const { return options.attempts_before + granted.restart + 1; }
    [[nodiscard]] record::JobFiles files() const {
        return record::JobFiles(plan.directories.job_directory);
    }
    // Returns whether the job goes on when a node is lost.
    [[nodiscard]] bool outlives_nodes() const {
        return plan::outlives_nodes(plan, elastic.has_value());
    }
    // Returns on which node of the place each process of the job's own step runs, as far as that
    // is known.
    [[nodiscard]] record::RankPlaces rank_places() const;
    // Returns whether ranks that are left after the loss of others go on in their processes: the
    // job wants it, and it is known where each rank runs.
    [[nodiscard]] bool keeps_processes() const;
    // Returns srun's option --mpi for the ranks. Slurm's plugin for PMIx ends all tasks when one of
    // them dies, whatever srun is told; its PMI-2 does not.
    [[nodiscard]] std::string mpi() const { return keeps_processes() ? "pmi2" : plan.mpi; }
    // Returns the step of that kind, if the plan has one.
    [[nodiscard]] const plan::Step* step(plan::StepKind kind) const;
    // Returns the job's own step: its ranks, or the one process of a custom toolkit.
    [[nodiscard]] const plan::Step* main_step() const;
    // Returns the job's own step with no more processes than the place has room for.
    [[nodiscard]] plan::Step main_step_here() const;
    // Returns the nodes to name to srun for a step on `nodes`: none if these are all nodes of the
    // allocation.
    [[nodiscard]] std::vector<std::string> to_name(const std::vector<std::string>& nodes) const;
    // Returns the nodes to name to srun for the ranks.
    [[nodiscard]] std::vector<std::string> step_nodes() const { return to_name(place.nodes); }
    // Returns the nodes that are made ready for ranks: those of the place and the spare ones, in
    // Slurm's order.
    [[nodiscard]] std::vector<std::string> ready_nodes() const;
    // Returns the file that preparation writes on a node before its text is copied into the logs.
    // `name` may contain srun's "%t".
    [[nodiscard]] std::string preparation_file(const std::string& name) const {
        return files().preparation_output(attempt(), name).string();
    }
    // Returns the part of a file name that identifies this start of the ranks: the attempt's number
    // and, after a restart within the attempt, the number of that restart.
    [[nodiscard]] std::string start() const;
    // Return the files of a rank's standard output and error at this start. `rank` is a number, or
    // "%t" for srun.
    [[nodiscard]] std::string rank_output_file(const std::string& rank) const;
    [[nodiscard]] std::string rank_error_file(const std::string& rank) const;
    // Removes these files of `rank`, which is a number.
    void remove_rank_files(const std::string& rank) const;
};

// Returns the directory of the job's logs, as this node sees it.
[[nodiscard]] std::string output_directory(const plan::Plan& plan);

// Returns the variables by which srun lays out the ranks, and any step whose tasks must run where
// the ranks will.
[[nodiscard]] base::Environment layout_variables(const plan::Plan& plan, const Lookup& environment);

// Returns Slurm's variables of a task of an array job, and of a job that was queued again, and what
// the plugin must know of the job. srun_environment() leaves out what a job around this one has
// left.
[[nodiscard]] base::Environment job_variables(const slurm::ThisJob& job, const Lookup& environment);

// Returns the variables that a step's srun gets in addition to our own environment.
[[nodiscard]] base::Environment step_environment(const Context& context, plan::StepKind kind);

// Returns the variables that tell a step's tasks where to report what went wrong
// (blame/culprit.hpp).
[[nodiscard]] base::Environment report_variables(const record::JobFiles& files,
                                                 const std::string& step);

// Returns the variable that has the nodes note under this name which tasks have started
// (record/start_notes.hpp).
[[nodiscard]] std::string starts_variable(const std::string& step);

// Returns what is expected of a step with one task on each node that is made ready.
[[nodiscard]] ExpectedStarts starts_on_nodes(const Context& context, std::string step,
                                             std::vector<std::string> error_files);

// Returns the variables that have the nodes note what the step uses (record/usage.hpp), and that
// tell them what memory the job has.
[[nodiscard]] base::Environment usage_variables(const std::string& step);

// Returns a host file for mpirun, with one line per node such as "10.0.0.4 slots=2 max_slots=2".
[[nodiscard]] std::string host_file(const std::vector<std::string>& addresses, int slots);

// Writes the host file of the place. Also writes the variables of a step, for steps that somebody
// else starts (`job node exec`).
[[nodiscard]] base::Result<void> write_host_file(const Context& context);

}  // namespace batchai::run
