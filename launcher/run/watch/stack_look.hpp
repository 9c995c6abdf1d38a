// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "run/srun/piped_step.hpp"
#include "visit/stacks/answer.hpp"

namespace batchai::run {

struct StacksFound {
    std::vector<visit::NodeStacks> nodes;  // in the order in which they were asked
    struct Missing {
        std::string node;
        std::string why;
    };
    std::vector<Missing> missing;
};

// Asks nodes of a running job, all of them at about the same moment, what the job's processes do.
// A node that does not answer within some seconds is missing. The destructor ends the step.
class StackLook {
  public:
    using Clock = std::chrono::steady_clock;

    // `environment` is that of srun.
    [[nodiscard]] static base::Result<StackLook> start(const std::string& job_id,
                                                       std::vector<std::string> nodes,
                                                       visit::StacksWanted wanted,
                                                       base::Environment environment);

    // Reads what there is, and waits up to `longest` for more, or until `wake` can be read. Returns
    // true once all nodes have answered or no more answers come.
    [[nodiscard]] bool poll(std::chrono::milliseconds longest, int wake = -1);
    // Returns what has been found. Fails if no node has answered.
    [[nodiscard]] base::Result<StacksFound> found();
    // Ends the step without waiting for that, which has_ended() tells.
    void end() const { step_.tell_to_end(); }
    [[nodiscard]] bool has_ended() { return step_.has_ended(); }

  private:
    StackLook(PipedStep step, std::vector<std::string> nodes);

    PipedStep step_;
    std::vector<std::string> nodes_;
    visit::AnswerReader reader_;
    Clock::time_point deadline_;
};

}  // namespace batchai::run
