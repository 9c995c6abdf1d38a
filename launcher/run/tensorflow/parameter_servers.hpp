// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "record/attempt.hpp"
#include "record/ended_by.hpp"
#include "run/blame/culprit.hpp"
#include "run/context.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/step.hpp"

namespace batchai::run {

// How the parameter servers failed, and what ended them.
struct FailureOfServers {
    record::Failure failure;
    record::EndedBy by = record::EndedBy::program;
};

// The parameter servers of a TensorFlow job. They run in a step of their own beside that of the
// ranks, because they are not ranks and get no GPUs. They are ended when the object is destroyed.
class ParameterServers {
  public:
    // The context has the ports. It must outlive this object.
    explicit ParameterServers(const Context& context);

    [[nodiscard]] base::Result<void> start();
    // Copies what they have printed. Returns whether the ranks have to be ended, because a
    // parameter server has failed.
    [[nodiscard]] bool poll();
    // Ends them and copies the rest of what they have printed. If the workers have failed, waits a
    // moment for word of a server that has ended before them.
    void end(bool workers_failed);
    // Says which of them failed before end() was called, if one did.
    [[nodiscard]] std::optional<FailureOfServers> failure(std::string_view phase) const;
    // Removes what srun has written for them, if the logs have it. failure() reads these files.
    void remove_copied_output() const;

  private:
    [[nodiscard]] std::string messages() const;

    const Context& context_;
    plan::Step step_;
    TaskOutputs outputs_;
    TaskWords words_;
    std::string messages_path_;
    std::optional<BackgroundStep> running_;
    std::optional<ExpectedStarts> starts_;
    std::vector<NotStarted> not_started_;
    std::optional<std::chrono::steady_clock::time_point> ended_at_;
    std::string said_;  // by srun, before end() was called
    std::optional<int> exit_code_;
    bool copied_ = false;
};

}  // namespace batchai::run
