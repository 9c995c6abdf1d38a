// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/outside.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "node/failure_note.hpp"

namespace batchai::run {

namespace {

// Batch AI's own, for a job that never came to run.
constexpr int no_exit_code = -1;
constexpr std::string_view data_not_written = "DataNotWritten";

std::string_view sentence_for(std::string_view code) {
    if (code == "AZFMountError") return "Unable to mount Azure File";
    if (code == "BFSMountError") return "unable to mount blob fuse file system";
    if (code == "FailedStartingContainer") return "unable to start docker container";
    if (code == data_not_written) return "Not all data of the job reached its storage";
    return "Unable to mount a file system";
}

}  // namespace

std::optional<Ending> ended_from_outside(const StepResult& result, std::string_view phase) {
    if (!result.stopped_by) return std::nullopt;
    return Ending{.failure = {.code = "JobTerminated",
                              .message = "The specified job has been terminated by the user",
                              .phase = std::string(phase),
                              .signal = result.stopped_by},
                  .exit_code = 128 + *result.stopped_by};
}

void expect_node_failures(const Context& context) {
    node::forget_failure_notes(context.plan.directories.job_directory);
}

std::optional<Ending> node_failure(const Context& context, std::string_view phase,
                                   bool ended_well) {
    const auto notes = node::failure_notes(context.plan.directories.job_directory);
    const auto& nodes = context.place.nodes;
    const auto note = std::find_if(notes.begin(), notes.end(), [&](const auto& candidate) {
        return std::find(nodes.begin(), nodes.end(), candidate.node) != nodes.end() &&
               (!ended_well || candidate.code == data_not_written);
    });
    if (note == notes.end()) return std::nullopt;
    std::fprintf(stderr, "batchai: node %s: %s\n", note->node.c_str(), note->text.c_str());
    return Ending{.failure = {.code = note->code,
                              .message = std::string(sentence_for(note->code)),
                              .phase = std::string(phase),
                              .node = note->node,
                              .exit_code = no_exit_code,
                              // Without its hint.
                              .first_error_line = note->text.substr(0, note->text.find('\n'))},
                  .exit_code = no_exit_code};
}

}  // namespace batchai::run
