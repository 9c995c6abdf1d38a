// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"

// What Slurm's commands print on standard error, and what it means.
namespace batchai::slurm {

// Returns the lines that a command has printed, without repetitions.
[[nodiscard]] std::vector<std::string> messages(std::string_view command,
                                                std::string_view standard_error);

// Makes an error from the standard error of a command that refused, without the program's name and
// without repeated lines. Adds a hint for the refusals that users meet.
[[nodiscard]] base::Error refusal(std::string_view command, std::string_view standard_error);

// Returns that error as a result.
[[nodiscard]] tl::unexpected<base::Error> refused(std::string_view command,
                                                  const base::Completed& completed);

// Returns whether Slurm may have done what it was asked although the command failed: the command
// was ended, or has itself given up ("Socket timed out on send/recv operation").
[[nodiscard]] bool gave_no_answer(const base::Error& error);

}  // namespace batchai::slurm
