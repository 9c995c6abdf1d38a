// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::slurm {

struct ReasonInWords {
    std::string sentence;  // why the job waits
    std::string advice;    // what the user can change; empty: nothing but wait

    bool operator==(const ReasonInWords&) const = default;
};

// Slurm's reason for a waiting job, as JobStatus::reason has it, in words. A reason that this
// program does not know is passed on as it is. "" and "None": not considered by the scheduler yet.
[[nodiscard]] ReasonInWords pending_reason_in_words(std::string_view reason);

}  // namespace batchai::slurm
