// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>

#include "job/schema/field_binding.hpp"
#include "job/schema/field_table.hpp"

namespace batchai::job {

namespace {

constexpr std::array progress_fields = {
    text<&RetrySettings::progress_directory>("directory",
                                             "Directory to which the ranks write checkpoints",
                                             R"("$AZ_BATCHAI_OUTPUT_MODEL")")
        .required()
        .checked(Check::path),
    integer<&RetrySettings::attempts_without_progress>(
        "attempts", 1, 100, "Attempts in a row that write nothing there before the job is given up",
        "2")
        .defaults_to("2"),
};
constexpr Object progress_object = {
    "StopWithoutProgress",
    "Gives a job up that fails again and again without writing a checkpoint.", progress_fields};

constexpr std::array retry_fields = {
    words<&RetrySettings::on>(
        "on",
        "Causes after which the job is run again: `nodeFailure`, "
        "`preemption`, `timeout`, `hang` and `slow` (ends by `watch`), and exit codes "
        "of the job",
        R"(["nodeFailure", "preemption", "timeout", "75", "130-140"])")
        .required()
        .checked(Check::retry_cause),
    integer<&RetrySettings::max>("max", 1, 1000, "How often the job is run again at most", "5")
        .defaults_to("3"),
    boolean<&RetrySettings::exclude_failed_nodes>(
        "excludeFailedNodes", "Keep the job off the nodes on which it has failed", "true")
        .defaults_to("false"),
    boolean<&RetrySettings::in_allocation>(
        "inAllocation",
        "Start the ranks again at once in the job's allocation if its nodes are usable and half of "
        "its time limit is left; `false`: always queue the job again",
        "false")
        .defaults_to("true"),
    object_within<&RetrySettings::progress_directory>("stopWithoutProgress", progress_object,
                                                      "Give the job up if it makes no progress"),
};

constexpr std::array<std::string_view, 3> checkpoint_signals = {"USR1", "USR2", "TERM"};

// Slurm keeps the time before the limit in 16 bits.
constexpr std::int64_t longest_before = 18LL * 60 * 60;

constexpr std::array checkpoint_fields = {
    choice<&CheckpointSettings::signal>("signal", checkpoint_signals,
                                        "The signal that every rank gets", R"("USR1")")
        .defaults_to(R"("USR1")"),
    duration<&CheckpointSettings::before>(
        "before", 1, longest_before,
        "How long before the time limit. Slurm may send it up to a minute earlier", R"("PT5M")")
        .required(),
};

}  // namespace

constexpr Object checkpoint_object = {
    "Checkpoint",
    "Sends the ranks a signal before the time limit, and when the job is pre-empted, and waits "
    "until they have ended. An extension of Batch AI's schema; see checkpoints.md.",
    checkpoint_fields};

constexpr Object retry_object = {"Retry",
                                 "When a job that has failed is run again: in its allocation, or "
                                 "queued again in Slurm under the "
                                 "same id. An extension of Batch AI's schema; see checkpoints.md.",
                                 retry_fields};

}  // namespace batchai::job
