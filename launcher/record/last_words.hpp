// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "record/attempt.hpp"

// How an attempt ended, if its record could not be written: the disk is full, or cannot be written
// to. `batchai run` then leaves it in Slurm's comment on the job (job_comment.hpp).
namespace batchai::record {

// Returns the comment with the end of the attempt instead of an earlier one. The reason of the
// failure is cut so that the comment does not become too long.
[[nodiscard]] std::string comment_with_end(std::string_view comment, const Attempt& attempt);

// Returns the attempt whose end the comment tells. It has no phases.
[[nodiscard]] std::optional<Attempt> end_in_comment(std::string_view comment);

}  // namespace batchai::record
