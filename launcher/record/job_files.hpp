// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"

// The paths of everything that belongs to a job. No other file spells these names. The other parts
// write and read what is there:
//
//   attempt.hpp         the record of an attempt
//   ended_by.hpp        who or what ended an attempt
//   job_comment.hpp     what stands in Slurm's comment on the job
//   last_words.hpp      the end of an attempt that its record cannot tell, in Slurm's comment
//   node_fault.hpp      which nodes the job has found to be bad, in that comment
//   retries.hpp         how often a job has been run again
//   elastic_files.hpp   the files by which the nodes of an elastic job are changed
//   snapshot.hpp        what a job's snapshot was made of
//   software.hpp        what was set up on a node for the job
//   step_variables.hpp  what `batchai run` adds to the environment of its steps
//   start_notes.hpp     which tasks of a step have started
//   task_reports.hpp    what our own programs in the tasks report
//   node_notes.hpp      what nodes say, such as why they could not do their part
//   node_steps.hpp      when each step began and ended on each node
//   usage.hpp           what steps use on their nodes; usage_text.cpp has the lines of its file
//   rank_logs.hpp       where the output of each rank is, and in which order it came
namespace batchai::record {

// The contents of a job's directory (mode 0700), which is the `job_directory` of its plan.
class JobFiles {
  public:
    using Path = std::filesystem::path;

    explicit JobFiles(Path directory) : directory_(std::move(directory)) {}

    [[nodiscard]] const Path& directory() const { return directory_; }
    // The store's own record. A job exists if it has this file.
    static constexpr const char* record_name = "job.json";
    [[nodiscard]] Path record() const { return directory_ / record_name; }
    [[nodiscard]] Path plan() const { return directory_ / "plan.json"; }
    // The points of a sweep (plan/sweep_file.hpp).
    [[nodiscard]] Path sweep() const { return directory_ / "sweep.json"; }
    // Held by a command that queues tasks of the job again.
    [[nodiscard]] Path array_lock() const { return directory_ / "array.lock"; }
    [[nodiscard]] Path batch_script() const { return directory_ / "batch.sh"; }
    // The script of the array that runs tasks again, for the first time with number 1.
    [[nodiscard]] Path batch_script_again(int number) const {
        return directory_ / ("batch-again-" + std::to_string(number) + ".sh");
    }
    // Values of secret variables, and storage keys. The mode is always 0600.
    [[nodiscard]] Path secrets() const { return directory_ / "secrets.json"; }
    // The credentials of the image's registry until the job starts. The mode is always 0600.
    [[nodiscard]] Path registry_auth() const { return directory_ / "registry-auth.json"; }
    // The program's directory as it was at submission, what it was made of, and what it differed in
    // from its commit in git (record/snapshot.hpp).
    [[nodiscard]] Path snapshot() const { return directory_ / "snapshot"; }
    [[nodiscard]] Path snapshot_record() const { return directory_ / "snapshot.json"; }
    [[nodiscard]] Path snapshot_patch() const { return directory_ / "snapshot.patch"; }
    // Output of the batch script itself (sbatch --output).
    [[nodiscard]] Path slurm_log() const { return directory_ / "slurm.log"; }
    // Standard output and error of the ranks if the job file's prefix is on remote storage.
    [[nodiscard]] Path stdouterr() const { return directory_ / "stdouterr"; }

    [[nodiscard]] Path attempts() const { return directory_ / "attempts"; }
    [[nodiscard]] Path attempt(int number) const {
        return attempts() / (std::to_string(number) + ".json");
    }
    // How often the job has been run again (record/retries.hpp).
    [[nodiscard]] Path retries() const { return directory_ / "retries.json"; }
    // Each rank's standard output and error until they are in the logs, in files of their own so
    // that a failure can be assigned to a rank. `start` is the attempt's number or, after a restart
    // of an elastic job's ranks, "<attempt>-<restart>". `rank` is a number, or "%t" for srun.
    [[nodiscard]] Path rank_error(std::string_view start, std::string_view rank) const {
        return attempts() / (std::string(start) + ".stderr-" + std::string(rank) + ".txt");
    }
    [[nodiscard]] Path rank_output(std::string_view start, std::string_view rank) const {
        return attempts() / (std::string(start) + ".stdout-" + std::string(rank) + ".txt");
    }
    // What srun says of a step that runs beside the ranks.
    [[nodiscard]] Path step_messages(std::string_view start, std::string_view name) const {
        return attempts() / (std::string(start) + "." + std::string(name) + ".srun.txt");
    }
    // Gets a line when the master of a TensorFlow job has ended well.
    [[nodiscard]] Path master_end(std::string_view start) const {
        return attempts() / (std::string(start) + ".master-end");
    }
    // Where the ranks of a start run, and in which order they have printed (record/rank_logs.hpp).
    [[nodiscard]] Path rank_places(std::string_view start) const {
        return attempts() / (std::string(start) + ".ranks.json");
    }
    [[nodiscard]] Path rank_pieces(std::string_view start) const {
        return attempts() / (std::string(start) + ".pieces");
    }
    // The next functions return a PATH. Each task of a step reports to a file of its own,
    // named PATH.TASK with an ending (record/task_reports.hpp). `step` is a `start`, as above,
    // followed by a word if the step is not that of the ranks.
    [[nodiscard]] Path refusals(std::string_view step) const {
        return attempts() / (std::string(step) + ".refused");
    }
    [[nodiscard]] Path rank_failures(std::string_view step) const {
        return attempts() / (std::string(step) + ".failure");
    }
    // Which tasks of a step have started on a node (record/start_notes.hpp), by the index of the
    // node among those of the step: nodes that share this directory need not agree on their names.
    [[nodiscard]] Path start_note(std::string_view step, int node) const {
        return attempts() / (std::string(step) + ".started-" + std::to_string(node) + ".txt");
    }
    [[nodiscard]] Path wire_up_reports(std::string_view start) const {
        return attempts() / (std::string(start) + ".wire-up");
    }
    [[nodiscard]] Path gpu_reports(std::string_view start) const {
        return attempts() / (std::string(start) + ".gpus");
    }
    [[nodiscard]] Path link_reports(std::string_view start) const {
        return attempts() / (std::string(start) + ".links");
    }
    // What a step has used on a node (record/usage.hpp), and the newest samples while somebody
    // watches. `step` is as above. `number` is Slurm's number of the step, because the command of a
    // custom toolkit may start further steps on the same node.
    static constexpr std::string_view usage_infix = ".usage-";
    static constexpr std::string_view usage_ending = ".txt";
    static constexpr std::string_view live_usage_ending = ".live";
    [[nodiscard]] Path usage(std::string_view step, int number, std::string_view node) const {
        return usage_file(step, number, node, usage_ending);
    }
    [[nodiscard]] Path live_usage(std::string_view step, int number, std::string_view node) const {
        return usage_file(step, number, node, live_usage_ending);
    }
    // `job top` touches this file as long as it watches.
    [[nodiscard]] Path usage_wanted() const { return attempts() / "usage.wanted"; }
    [[nodiscard]] Path software_reports(std::string_view start) const {
        return attempts() / (std::string(start) + ".software");
    }
    [[nodiscard]] Path health_reports(std::string_view start) const {
        return attempts() / (std::string(start) + ".health");
    }
    // What the tasks of preparation print, before it is copied into the log of the same `name`.
    [[nodiscard]] Path preparation_output(int attempt, std::string_view name) const {
        return attempts() / (std::to_string(attempt) + "." + std::string(name));
    }

    // AZ_BATCHAI_SHARED_JOB_TEMP.
    [[nodiscard]] Path shared() const { return directory_ / "shared"; }
    // AZ_BATCHAI_MPI_HOST_FILE.
    [[nodiscard]] Path host_file() const { return directory_ / "hostfile"; }
    // What `batchai run` adds to the environment of its steps (record/step_variables.hpp).
    [[nodiscard]] Path step_variables() const { return directory_ / "step-variables"; }
    // Output of the step that watches an elastic job's first node.
    [[nodiscard]] Path watch_log() const { return directory_ / "watch.log"; }
    // Commits of an elastic job's ranks.
    [[nodiscard]] Path elastic() const { return directory_ / "elastic"; }
    // How the nodes of an elastic job are changed while it runs (record/elastic_files.hpp).
    [[nodiscard]] Path hosts_update() const { return elastic() / "hosts.json"; }
    [[nodiscard]] Path ranks_left() const { return elastic() / "left.json"; }
    // How its ranks go on after a loss (the same).
    [[nodiscard]] Path ranks_stay() const { return elastic() / "stay.json"; }
    [[nodiscard]] Path ranks_lost() const { return elastic() / "loss.json"; }
    // The beginning of the names of files there, before the number of a rank. They begin with that
    // of no start.
    [[nodiscard]] static std::string end_of_ranks(std::string_view start) {
        return "ended." + (start.empty() ? std::string() : std::string(start) + ".");
    }
    [[nodiscard]] Path ranks_lost_answer() const { return elastic() / "loss-answer.json"; }
    [[nodiscard]] Path resize_request() const { return directory_ / "resize.json"; }

    // The directory in which batchai-node writes a log for each node, its notes, and the address at
    // which the ranks meet.
    [[nodiscard]] Path node_logs() const { return directory_ / "node"; }
    [[nodiscard]] Path node_log(std::string_view node) const {
        return node_logs() / (std::string(node) + ".log");
    }
    // When the steps began and ended on a node (record/node_steps.hpp).
    static constexpr std::string_view node_steps_ending = ".steps";
    [[nodiscard]] Path node_steps(std::string_view node) const {
        return node_logs() / (std::string(node) + std::string(node_steps_ending));
    }
    // The variables of the job's "software" on a node (record/software.hpp).
    [[nodiscard]] Path node_software(std::string_view node) const {
        return node_logs() / (std::string(node) + ".software");
    }
    // A failure note says why batchai-node could not do its part. A storage note says that it still
    // has something to store (record/node_notes.hpp).
    static constexpr std::string_view failure_note_ending = ".failure.json";
    static constexpr std::string_view storage_note_ending = ".storage.json";
    [[nodiscard]] Path failure_note(std::string_view node) const {
        return node_logs() / (std::string(node) + std::string(failure_note_ending));
    }
    [[nodiscard]] Path storage_note(std::string_view node, std::string_view id) const {
        return node_logs() /
               (std::string(node) + "-" + std::string(id) + std::string(storage_note_ending));
    }
    // Data that remote storage did not take, by node and mount.
    [[nodiscard]] Path unsaved(std::string_view node) const {
        return directory_ / "unsaved" / std::string(node);
    }

    // The records and logs of one task of an array job. They are in a directory of their own below
    // that of the plan, which all tasks share.
    [[nodiscard]] JobFiles array_task(int number) const {
        return JobFiles(directory_ / (task_prefix + std::to_string(number)));
    }
    // Returns this directory and those of the array tasks that have started, as far as they can be
    // read.
    [[nodiscard]] std::vector<JobFiles> with_array_tasks() const {
        std::vector<JobFiles> out{*this};
        std::error_code code;
        for (const auto& entry : base::entries_of(directory_, code)) {
            if (entry.path().filename().string().starts_with(task_prefix))
                out.emplace_back(entry.path());
        }
        return out;
    }
    // Returns the numbers of these tasks, in no order. One that is missing would count as one that
    // has never run, so it is an error if the directory cannot be read to its end.
    [[nodiscard]] base::Result<std::vector<int>> started_array_tasks() const {
        std::vector<int> out;
        std::error_code code;
        for (const auto& entry : base::entries_of(directory_, code)) {
            const std::string name = entry.path().filename().string();
            if (!name.starts_with(task_prefix)) continue;
            const auto digits = std::string_view(name).substr(std::string_view(task_prefix).size());
            if (const auto number = base::number_in<int>(digits)) out.push_back(*number);
        }
        if (code && code != std::errc::no_such_file_or_directory)
            return base::system_error("list", directory_, code.value());
        return out;
    }

  private:
    static constexpr const char* task_prefix = "task-";

    [[nodiscard]] Path usage_file(std::string_view step, int number, std::string_view node,
                                  std::string_view ending) const {
        return attempts() / (std::string(step) + std::string(usage_infix) + std::to_string(number) +
                             "-" + std::string(node) + std::string(ending));
    }

    Path directory_;
};

}  // namespace batchai::record
