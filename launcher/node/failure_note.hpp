// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <vector>

namespace batchai::node {

// Why a node could not do its part, in words for the job's record: a step's exit code and output do
// not tell a mount that failed from a program that did.
struct FailureNote {
    std::string code;  // Batch AI's: "AZFMountError", …
    std::string text;  // what failed, and why
    std::string node;

    bool operator==(const FailureNote&) const = default;
};

// <job directory>/node/<node>.failure.json, over an earlier one. Best effort, as the task says the
// same to the user.
void write_failure_note(const std::string& job_directory, const FailureNote& note);

// Whether the node has written one already.
[[nodiscard]] bool has_failure_note(const std::string& job_directory, const std::string& node);

// Of all nodes, the oldest first. What cannot be read is passed over.
[[nodiscard]] std::vector<FailureNote> failure_notes(const std::string& job_directory);

// To be called before a step, whose notes are then the only ones.
void forget_failure_notes(const std::string& job_directory);

}  // namespace batchai::node
