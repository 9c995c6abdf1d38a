// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// What stands in Slurm's comment on a job: what its user has put there, and behind it what `batchai
// run` leaves. Everybody who sees the job in Slurm can read it, and its user may write anything
// there at any time.
namespace batchai::record {

struct JobComment {
    std::string of_user;
    std::string node_faults;  // node_fault.hpp has what this means; empty: none
    std::string end;          // the same with last_words.hpp
};

// The words with which the parts of `batchai run` begin.
inline constexpr std::string_view node_faults_mark = "batchai-nodes=";
inline constexpr std::string_view end_mark = "batchai-end=";

[[nodiscard]] JobComment parse_job_comment(std::string_view text);

// Returns the comment as one line, as long as its parts have one line each.
[[nodiscard]] std::string to_text(const JobComment& comment);

// In bytes. All versions of Slurm take a comment of this length.
inline constexpr std::size_t longest_job_comment = 1000;

}  // namespace batchai::record
