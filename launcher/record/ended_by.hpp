// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace batchai::record {

// Who or what ended an attempt.
enum class EndedBy {
    program,        // the job's own command, whether it succeeded or failed
    user,           // scancel or `batchai job terminate`
    administrator,  // somebody else cancelled the job
    time_limit,
    preemption,
    node,  // one of the job's nodes was lost
    memory,
    hang,        // they stood still, and the job's "watch" ended them
    slow,        // one was much slower than the others, and the job's "watch" ended them
    requeue,     // somebody put the job back into the queue
    node_setup,  // the setup task of the job's cluster
    preparation,
    health,   // a node failed a check of the site
    storage,  // a volume cannot be mounted, or does not take all data
    start,    // the ranks could not be started: image, wire-up, output directories
    unknown,
};
constexpr auto json_words(EndedBy /*type*/) {
    return std::array{std::pair{std::string_view("program"), EndedBy::program},
                      std::pair{std::string_view("user"), EndedBy::user},
                      std::pair{std::string_view("administrator"), EndedBy::administrator},
                      std::pair{std::string_view("timeLimit"), EndedBy::time_limit},
                      std::pair{std::string_view("preemption"), EndedBy::preemption},
                      std::pair{std::string_view("lostNode"), EndedBy::node},
                      std::pair{std::string_view("memory"), EndedBy::memory},
                      std::pair{std::string_view("hang"), EndedBy::hang},
                      std::pair{std::string_view("slow"), EndedBy::slow},
                      std::pair{std::string_view("requeue"), EndedBy::requeue},
                      std::pair{std::string_view("nodeSetup"), EndedBy::node_setup},
                      std::pair{std::string_view("preparation"), EndedBy::preparation},
                      std::pair{std::string_view("health"), EndedBy::health},
                      std::pair{std::string_view("storage"), EndedBy::storage},
                      std::pair{std::string_view("start"), EndedBy::start},
                      std::pair{std::string_view("unknown"), EndedBy::unknown}};
}

// How Batch AI reports an end.
struct EndWords {
    std::string_view code;
    std::string_view message;
};

// Returns the words for an end about which nothing more exact is known.
[[nodiscard]] constexpr EndWords words_of(EndedBy by) {
    switch (by) {
        case EndedBy::program:
            return {"JobFailed", "Job failed with non-zero exit code"};
        case EndedBy::user:
            return {"JobTerminated", "The specified job has been terminated by the user"};
        case EndedBy::administrator:
            return {"JobCancelled", "Somebody other than its user cancelled the job in Slurm"};
        case EndedBy::time_limit:
            return {"JobTimedOut", "The job ran longer than its time limit and Slurm ended it"};
        case EndedBy::preemption:
            return {"JobPreempted", "A job of higher priority took the nodes of the job"};
        case EndedBy::node:
            return {"NodeFailed", "A node of the job failed while the job ran"};
        case EndedBy::memory:
            return {"JobOutOfMemory", "The job used more memory than it was given"};
        case EndedBy::hang:
            return {"JobHung", "The job stood still, and its \"watch\" ended it"};
        case EndedBy::slow:
            return {"JobSlow",
                    "A rank was much slower than the others, and \"watch\" ended the job"};
        case EndedBy::requeue:
            return {"JobRequeued", "The job was put back into the queue"};
        case EndedBy::node_setup:
            return {"NodeSetupFailed", "Setup task of the cluster failed with non-zero exit code"};
        case EndedBy::preparation:
            return {"JobPreparationFailed", "Job preparation task failed with non-zero exit code"};
        case EndedBy::health:
            return {"HealthCheckFailed", "A node of the job failed a check of the site"};
        case EndedBy::storage:
            return {"StorageFailed", "The job's storage failed"};
        case EndedBy::start:
            return {"JobStartFailed", "The job could not be started"};
        case EndedBy::unknown:
            break;
    }
    return {"JobLost", "Slurm no longer knows the job, and the job left no record of its end"};
}

}  // namespace batchai::record
