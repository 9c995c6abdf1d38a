// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/process.hpp"
#include "record/task_reports.hpp"
#include "run/srun/step.hpp"

// The wire-up check proves that PMIx connects the ranks. It runs in a separate step before the
// ranks start. This file has the commands of that step and the interpretation of its reports.

namespace batchai::run {

// Returns the path of an installed program of the node. This is the program beside the running one,
// so that an installation can be moved, or else the one at the configured path.
[[nodiscard]] std::string program_on_nodes(std::string_view name);

// Returns the command of the installed mpi_bridge_wireup.
[[nodiscard]] base::Arguments check_on_nodes();

// Returns the same check for the job's container, where it uses the libpmix that the ranks will
// use.
[[nodiscard]] base::Arguments check_in_container();

// Returns how long the step of a check may take, with the time to make a container and to mount
// volumes in it.
[[nodiscard]] std::chrono::seconds check_deadline(bool in_container);

// Returns whether a PMIx server did not answer in time, or could not be connected to. Both may be
// temporary.
[[nodiscard]] bool worth_another_try(const base::Result<StepResult>& result);

struct WireUpFault {
    std::string code;     // of the record: "WireUpFailed", …
    std::string message;  // for people
    std::string line;     // what the check found, and what to do about it
};

// What the tasks of a failed check have reported. Of each kind of report, the one of the lowest
// rank is kept.
struct WireUpWords {
    std::string said{};  // the tasks' standard error, as srun passed it on
    std::optional<record::WireUpReport> report{};
    std::optional<std::string> refusal{};  // the plugin's refusal to run a task
    std::optional<std::string>
        why_none{};              // why an image whose container works cannot have the check
    std::string bundled_pmix{};  // the version that the node's bundle has, such as "4.2.2rc2"
};
[[nodiscard]] WireUpWords words_of_wire_up(const std::filesystem::path& reports,
                                           const std::filesystem::path& refusals, int ranks,
                                           std::string said);

// Turns the reports of a failed check into a fault. Pure.
[[nodiscard]] WireUpFault wire_up_fault(const WireUpWords& words, bool in_container);

}  // namespace batchai::run
