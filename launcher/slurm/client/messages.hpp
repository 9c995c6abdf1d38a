// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"

// What Slurm's commands print on standard error, for the files of this folder.
namespace batchai::slurm {

// Returns the lines that a command has printed, without repetitions.
[[nodiscard]] std::vector<std::string> messages(std::string_view command,
                                                std::string_view standard_error);

// Returns the error of a command that refused (refusal() in slurm/parse.hpp).
[[nodiscard]] tl::unexpected<base::Error> refused(std::string_view command,
                                                  const base::Completed& completed);

}  // namespace batchai::slurm
