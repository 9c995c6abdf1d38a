// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/process.hpp"
#include "record/task_reports.hpp"
#include "run/srun/step.hpp"

// The check that PMIx wires the ranks, which runs in a step of its own before them: what the step
// runs, and what its reports mean.

namespace batchai::run {

// The installed mpi_bridge_wireup: beside this program's own installation, wherever that was moved
// to, else where it was configured to be.
[[nodiscard]] base::Arguments check_on_nodes();

// The same in the job's container, where the ranks run: with the libpmix that they will use.
[[nodiscard]] base::Arguments check_in_container();

// The server did not answer in time, which may pass.
[[nodiscard]] bool worth_another_try(const base::Result<StepResult>& result);

struct WireUpFault {
    std::string code;     // of the record: "WireUpFailed", …
    std::string message;  // for people
    std::string line;     // what the check found, and what to do
};

// What the tasks of a check that failed have left, of each kind the one of the lowest rank.
struct WireUpWords {
    std::string said{};  // what srun passed on of their standard error
    std::optional<record::WireUpReport> report{};
    std::optional<std::string> refusal{};  // the plugin's
    std::optional<std::string>
        why_none{};              // the container is well, but the image cannot have the check
    std::string bundled_pmix{};  // "4.2.2rc2": what the node would bring
};
[[nodiscard]] WireUpWords words_of_wire_up(const std::filesystem::path& reports,
                                           const std::filesystem::path& refusals, int ranks,
                                           std::string said);

// Pure.
[[nodiscard]] WireUpFault wire_up_fault(const WireUpWords& words, bool in_container);

}  // namespace batchai::run
