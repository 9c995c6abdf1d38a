// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"

// Slurm's answers as values.
namespace batchai::slurm {

// Returns whether the text is the id of a job: 1 to 10 digits. Such an id can also be a file name.
[[nodiscard]] bool is_job_id(std::string_view text);

// The id of a job, or of one task of an array job, as Slurm's commands take it.
class JobId {
  public:
    // Reads "12" or "12_3". Everything else is an error: what names several tasks ("12_[0-3]"), and
    // a component of a heterogeneous job ("12+1").
    [[nodiscard]] static base::Result<JobId> parse(std::string_view text);

    [[nodiscard]] const std::string& text() const { return text_; }
    // Returns the id of the array job if this is one of its tasks.
    [[nodiscard]] std::string without_task() const { return text_.substr(0, text_.find('_')); }

  private:
    explicit JobId(std::string text) : text_(std::move(text)) {}

    std::string text_;
};

// Slurm's job states: the base states, and the flags that Slurm reports as the state.
enum class JobState {
    pending,
    running,
    suspended,
    completed,
    cancelled,
    failed,
    timeout,
    node_fail,
    preempted,
    boot_fail,
    deadline,
    out_of_memory,
    configuring,
    completing,
    expediting,  // queued again with --requeue=expedite, from 25.11 on
    requeued,
    requeue_hold,
    requeue_fed,
    resizing,
    reservation_deleted_hold,
    revoked,
    signaling,
    special_exit,
    stage_out,
    stopped,
    unknown,  // a word that this program does not know; JobStatus::state_text has it
};

// Reads "PENDING", "COMPLETED", "CANCELLED by 1000", "CANCELLED+" …
[[nodiscard]] JobState job_state(std::string_view text);
[[nodiscard]] std::string_view to_string(JobState state);
// Returns whether the job will not run (again) in this incarnation: COMPLETED, FAILED, CANCELLED, …
[[nodiscard]] bool is_final(JobState state);

struct JobStatus {
    std::string id;
    JobState state = JobState::unknown;
    std::string state_text;  // Slurm's own word
    std::string reason;      // "Resources", …; empty: none
    std::string partition;
    std::string user;
    // Exit code and signal of the batch script; absent while it has not ended.
    std::optional<int> exit_code;
    std::optional<int> signal;
    std::optional<base::Time> submit;
    std::optional<base::Time> eligible;
    std::optional<base::Time> start;  // expected, while the job is pending
    std::optional<base::Time> end;    // expected, while the job runs
    std::vector<std::string> nodes;   // allocated nodes, in Slurm's order
    int restart_count = 0;            // number of requeues, as far as Slurm knows it
    bool from_accounting = false;     // from sacct; the queue no longer knows the job
    // The id of the array, and the tasks of it that this is about. These are several as long as
    // they wait, and none if the job is not an array job.
    std::string array_id;
    std::vector<int> array_tasks;

    bool operator==(const JobStatus&) const = default;
};

enum class NodeBaseState {
    unknown,
    down,
    idle,
    allocated,
    mixed,
    error,
    future,
};

enum class NodeFlag {
    blocked,  // another job has the node's block of the topology to itself, from 24.05 on
    completing,
    drain,
    fail,
    invalid_registration,
    maintenance,
    not_responding,
    planned,
    power_down,  // requested, not begun
    powered_down,
    powering_down,
    powering_up,  // for both "POWERING_UP" and "CONFIGURING"
    reboot_issued,
    reboot_requested,
    reserved,
    other,
};

struct NodeStatus {
    std::string name;
    NodeBaseState state = NodeBaseState::unknown;
    std::set<NodeFlag> flags;
    std::string state_text;  // Slurm's own words: "idle+cloud+powered_down"
    std::string reason;      // of a drained or down node; empty: none
    int cpus = 0;
    std::string gres;                     // "gpu:a100:4(S:0-1)", empty: none
    std::vector<std::string> partitions;  // Slurm's default first, if the node is in it
    std::vector<std::string> features;

    [[nodiscard]] bool has(NodeFlag flag) const { return flags.contains(flag); }
    bool operator==(const NodeStatus&) const = default;
};

}  // namespace batchai::slurm
