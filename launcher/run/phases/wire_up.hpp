// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/process.hpp"
#include "record/task_reports.hpp"
#include "run/srun/step.hpp"

// The check that PMIx wires the ranks. It runs in a step of its own before theirs. This file has
// what that step runs and what its reports mean.

namespace batchai::run {

// Returns the installed mpi_bridge_wireup: the one beside this program, wherever that installation
// was moved to, else the one at the configured path.
[[nodiscard]] base::Arguments check_on_nodes();

// Returns the same check for the job's container, where it uses the libpmix that the ranks will
// use.
[[nodiscard]] base::Arguments check_in_container();

// Returns whether the server did not answer in time, which may be temporary.
[[nodiscard]] bool worth_another_try(const base::Result<StepResult>& result);

struct WireUpFault {
    std::string code;     // of the record: "WireUpFailed", …
    std::string message;  // for people
    std::string line;     // what the check found, and what to do about it
};

// What the tasks of a failed check have left; of each kind, the one of the lowest rank.
struct WireUpWords {
    std::string said{};  // the tasks' standard error, as srun passed it on
    std::optional<record::WireUpReport> report{};
    std::optional<std::string> refusal{};  // the plugin's refusal to run a task
    std::optional<std::string>
        why_none{};              // why the image, though its container works, cannot have the check
    std::string bundled_pmix{};  // such as "4.2.2rc2": what the node would bring
};
[[nodiscard]] WireUpWords words_of_wire_up(const std::filesystem::path& reports,
                                           const std::filesystem::path& refusals, int ranks,
                                           std::string said);

// Turns the reports of a failed check into a fault. Pure.
[[nodiscard]] WireUpFault wire_up_fault(const WireUpWords& words, bool in_container);

}  // namespace batchai::run
