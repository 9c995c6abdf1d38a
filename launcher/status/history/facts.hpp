// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/timestamp.hpp"
#include "record/attempt.hpp"
#include "record/node_notes.hpp"
#include "record/node_steps.hpp"
#include "record/usage.hpp"

// What a report of a job is made of, as values. Only collect.hpp reads files; the other parts of
// this folder look at values:
//
//   collect.hpp    reads the facts from the job's directory
//   timeline.hpp   finds the training steps in the timeline of a rank
//   phases.hpp     the phases of each attempt on each node, as bars
//   events.hpp     what has happened, in the order of time
//   speed.hpp      how fast the ranks were, and what they waited for
//   resources.hpp  what the steps of an attempt have used over time
//   judge.hpp      what could be better, and which setting to change
//   findings.hpp   all of that together, before it becomes a page or JSON
//   numbers.hpp    the report as JSON
namespace batchai::status {

// What Slurm and the records say about the job as a whole, in the words of `job show`.
struct Summary {
    std::string name{};
    std::string slurm_job_id{};
    std::string state{};  // "queued", "running", …
    bool ended = false;
    std::string ended_by{};  // a word of record::EndedBy; empty unless the job has ended
    std::optional<int> exit_code{};
    std::optional<base::Time> created{};
    std::optional<base::Time> start{};
    std::optional<base::Time> end{};
    // The first error of executionInfo; empty if there is none.
    std::string error_code{};
    std::string error_message{};
    // While the job is queued: why, and when Slurm expects to start it.
    std::string why_it_waits{};
    std::optional<base::Time> expected_start{};
};

// What the job has asked for.
struct Asked {
    std::string tool{};
    std::string command{};
    std::string image{};  // empty: no container
    int nodes = 1;
    int ranks = 1;
    int ranks_per_node = 1;
    int cpus_per_rank = 0;           // 0: not asked for
    std::int64_t limit_seconds = 0;  // the time limit; 0: the partition's
    bool checkpoint = false;
};

// A training step as one rank has seen it: from the end of the communication of the step before to
// the end of its own.
struct TrainingStep {
    base::Time begin{};
    double total = 0;     // seconds
    double own = 0;       // seconds until the rank had submitted everything: its own work
    double transfer = 0;  // seconds in which its collectives moved data, added up
    double bytes = 0;
};

// What the timeline of one rank says.
struct RankTimeline {
    int rank = 0;
    std::string host{};
    std::vector<TrainingStep> steps{};
    bool whole = true;          // false: the file is long, and only parts of it were read
    std::uint64_t dropped = 0;  // events that the rank did not write
};

struct Timelines {
    bool asked_for = false;  // the job has MPI_BRIDGE_TIMELINE or HOROVOD_TIMELINE
    std::string path{};      // as given; empty if not asked for
    std::string missing{};   // why there is nothing to read, though it was asked for
    std::vector<RankTimeline> ranks{};
};

struct Facts {
    Summary job{};
    Asked asked{};
    std::vector<record::Attempt> attempts{};  // the first one first
    std::vector<record::NodeStep> node_steps{};
    std::vector<record::FailureNote> failures{};
    // Of each attempt that has samples.
    std::vector<std::pair<int, std::vector<record::NodeUsage>>> usage{};
    Timelines timelines{};
    // Sentences about what the job has asked for and not used, or used up (`job show`).
    std::vector<std::string> advice_on_use{};
    std::string advice_on_waits{};  // a sentence about the rank for which the others waited
    base::Time now{};
};

}  // namespace batchai::status
