// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/process.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "run/context.hpp"
#include "run/srun/step.hpp"
#include "run/tensorflow/parameter_servers.hpp"

namespace batchai::run {

// What a TensorFlow job with several processes has besides its workers, which are the ranks. For
// any other job, it does nothing.
class TensorFlowJob {
  public:
    // The context must outlive this object.
    explicit TensorFlowJob(Context& context) : context_(context) {}

    // Starts the parameter servers. Adds to the step and the environment of the workers where the
    // tasks of the job are.
    [[nodiscard]] base::Result<void> start(plan::Step& workers, base::Environment& environment);
    // Call while the workers run. Returns whether they have to be ended.
    [[nodiscard]] bool poll();
    // Ends the parameter servers, and gives up the ports. `workers` says how their step ended.
    void end(const base::Result<StepResult>& workers);
    // Returns whether the job ends with its master, which has ended well. What the other workers do
    // after that does not count.
    [[nodiscard]] bool has_succeeded(const StepResult& workers) const;
    // Returns the failure of a parameter server, if there is one and it is the cause of the
    // workers' failure.
    [[nodiscard]] std::optional<FailureOfServers> failure(const record::Failure& of_worker,
                                                          std::string_view phase) const;
    // Removes what srun has written for the parameter servers, if the logs have it. Call after
    // failure().
    void remove_copied_output() const;

  private:
    [[nodiscard]] bool master_has_ended() const;

    Context& context_;
    std::optional<ParameterServers> servers_;
    std::string master_end_;  // empty: the job does not end with its master
    bool servers_failed_ = false;
};

}  // namespace batchai::run
