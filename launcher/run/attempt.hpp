// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/network.hpp"
#include "base/process.hpp"
#include "image/cache.hpp"
#include "plan/elastic.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "run/allocation.hpp"
#include "run/execution_log.hpp"
#include "run/srun/background_step.hpp"
#include "run/srun/step.hpp"

namespace batchai::run {

// One attempt at the job, phase after phase; each phase is in the record before it starts and
// after it ends, so that a reader always sees how far the job has come.
class AttemptRunner {
  public:
    // `plan` and `site` must outlive this object.
    AttemptRunner(const plan::Plan& plan, std::string digest, std::string plan_path,
                  const site::Site& site, image::InUse images_in_use, Granted granted);

    // The job's exit code.
    [[nodiscard]] int run();

  private:
    // A step that did not end well.
    struct Ending {
        record::Failure failure;
        int exit_code = 0;
        bool may_start_again = false;  // not when somebody wanted its end
    };

    [[nodiscard]] base::Result<void> make_outputs();
    // Imports the container's image, unless it is there. False: the attempt has failed.
    [[nodiscard]] bool have_image();
    // And the variables of a step that somebody else starts (`job node exec`).
    [[nodiscard]] base::Result<void> write_host_file();
    void use_nodes(std::vector<std::string> nodes);
    [[nodiscard]] bool prepare(const plan::Step& step);
    // The job's own step; of an elastic job, as often as needed.
    [[nodiscard]] bool run_until_done(const plan::Step& step);
    [[nodiscard]] std::optional<Ending> wire_up(const plan::Step& ranks);
    [[nodiscard]] base::Result<StepResult> check_wire_up(const plan::Step& ranks,
                                                         bool in_container);
    [[nodiscard]] std::optional<Ending> run_ranks(const plan::Step& step);
    // Makes way for the notes of the nodes' own failures in the step that follows.
    void expect_node_failures() const;
    // What a node said that its part of the step failed of (a mount), the first one's.
    // `ended_well`: the step itself did. Then only data that did not reach their storage count: a
    // sandbox that failed was of a step that somebody else started in the job.
    [[nodiscard]] std::optional<Ending> node_failure(const std::string& phase,
                                                     bool ended_well = false) const;
    // Copies the logs to where the job wants them, if that is on remote storage.
    void store_logs();
    // Has another node see to it that the job of a lost first node is queued again, if it is
    // elastic.
    void watch_first_node();
    // True, with the nodes and the record up to date, when the ranks are to start once more.
    [[nodiscard]] bool start_again(const Ending& end);

    void begin_phase(const std::string& name);
    void end_phase(int exit_code);
    void fail(record::Failure failure, int exit_code);
    // Something when the job was ended from outside during the step.
    [[nodiscard]] static std::optional<Ending> ended_from_outside(const StepResult& result,
                                                                  const std::string& phase);
    void save();
    void finish(int exit_code);

    [[nodiscard]] base::Environment step_environment(plan::StepKind kind) const;
    // Of the files of this start of the ranks.
    [[nodiscard]] std::string start_name() const;
    // For srun: empty when the ranks have all nodes of the allocation.
    [[nodiscard]] std::vector<std::string> step_nodes() const;
    [[nodiscard]] std::vector<std::string> rank_error_files(const plan::Step& step) const;
    [[nodiscard]] record::JobFiles files_of_job() const {
        return record::JobFiles(plan_.directories.job_directory);
    }
    [[nodiscard]] std::string output_path(const std::string& name) const;

    const plan::Plan& plan_;
    Granted granted_;
    std::optional<plan::Elastic> elastic_;
    std::vector<std::string> nodes_;  // on which the ranks run: all of them, or what is left
    std::vector<std::string> addresses_;
    // AZ_BATCH_MASTER_NODE's, for the job's own use, and MASTER_PORT. They are of the first node,
    // on which this program runs.
    std::optional<base::ReservedPort> port_;
    std::optional<base::ReservedPort> rank_port_;
    std::string output_directory_;  // of the logs, as this node sees it
    std::string digest_;
    std::string plan_path_;
    std::string mpi_;  // what srun --mpi= takes for the ranks
    const site::Site& site_;
    image::InUse images_in_use_;
    record::Attempt record_;
    ExecutionLog log_;
    SignalWatch signals_;
    std::optional<BackgroundStep> watch_;
};

}  // namespace batchai::run
