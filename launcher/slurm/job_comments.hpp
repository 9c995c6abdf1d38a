// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"

namespace batchai::slurm {

// A run of a job as Slurm's accounting has it: what its user has written into the comment, and what
// Slurm itself knows of the run. A job that was queued again, or that has got fewer nodes, has
// several runs with the same id, each with the comment that the job had at the run's end.
struct CommentedRun {
    std::string id;
    std::string user;
    std::optional<base::Time> start;
    std::optional<base::Time> end;  // none: it has not ended
    std::string nodes;              // a host list; empty: it has had none
    std::string comment;            // up to its first newline

    bool operator==(const CommentedRun&) const = default;
};

// Output of: sacct --noheader --parsable2 --allocations --duplicates --delimiter=DELIMITER
// --format=kJobCommentsFormat. Returns all runs of each job one of whose comments has `word`.
// A comment may have newlines, so that its user could imitate further lines of any other jobs:
// nobody may know the delimiter before. What is not a whole line is passed over.
extern const std::string_view kJobCommentsFormat;
[[nodiscard]] std::vector<CommentedRun> parse_job_comments(std::string_view text,
                                                           std::string_view delimiter,
                                                           std::string_view word);

}  // namespace batchai::slurm
