// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

// What a program's standard error says of its failure. Pure.
namespace batchai::run {

// Returns the line that says what went wrong: the last line of the first Python traceback, else the
// first line that looks like an error, else the last line that is not a mere warning, else the last
// non-empty line. A label that names the rank, as torch and launchers put it before each line, is
// left out, and so is what a carriage return has overwritten. The result is presentable(). With
// `outlives_losses`, what horovod.common.elastic says of failures counts for nothing, because the
// rank has gone on after them in its process.
[[nodiscard]] std::string first_error_line(std::string_view standard_error,
                                           bool outlives_losses = false);

// Returns the line without blanks around it and control characters, cut to 400 bytes.
[[nodiscard]] std::string presentable(std::string_view line);

// Returns true for a message that only reports a connection which the other side has broken. It
// guesses from the wording of other libraries, so a report of libmpi_bridge takes precedence.
[[nodiscard]] bool tells_of_a_broken_connection(std::string_view error_line);

// Returns whether libmpi_bridge has said this of the loss of another rank.
[[nodiscard]] bool tells_of_a_lost_rank(std::string_view text);

}  // namespace batchai::run
