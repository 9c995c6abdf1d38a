// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/process.hpp"
#include "run/srun/step.hpp"

// The check that PMIx wires the ranks, which runs in a step of its own before them: what the step
// runs, and what its words mean. Pure.

namespace batchai::run {

// The installed mpi_bridge_wireup: beside this program's own installation, wherever that was moved
// to, else where it was configured to be.
[[nodiscard]] base::Arguments check_on_nodes();

// The same in the job's container, where the ranks run: with the libpmix that they will use.
[[nodiscard]] base::Arguments check_in_container();

// Why the check in the container did not run there, though the container is well: the image cannot
// have it. Nothing when it did run, or something else failed.
[[nodiscard]] std::optional<std::string> why_not_in_container(std::string_view said);

// The server did not answer in time, which may pass.
[[nodiscard]] bool worth_another_try(const base::Result<StepResult>& result);

struct WireUpFault {
    std::string code;     // of the record: "WireUpFailed", …
    std::string message;  // for people
    std::string line;     // what the check said, and what to do
};

// What failed, by what the step said.
[[nodiscard]] WireUpFault wire_up_fault(const std::string& said, bool in_container);

}  // namespace batchai::run
