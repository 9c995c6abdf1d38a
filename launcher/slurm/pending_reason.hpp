// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace batchai::slurm {

struct ReasonInWords {
    std::string sentence;  // why the job waits
    std::string advice;    // what the user can do; empty: only wait

    bool operator==(const ReasonInWords&) const = default;
};

// Explains Slurm's reason for a waiting job, as it is in JobStatus::reason. A reason that this
// program does not know is returned as it is. "" and "None" mean that the scheduler has not
// considered the job yet.
[[nodiscard]] ReasonInWords pending_reason_in_words(std::string_view reason);

}  // namespace batchai::slurm
