// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

// After a step: waits until its nodes have stored what it wrote, or the job is told to end. The
// step itself does not wait for that, because Slurm drains nodes whose steps do not end. A node
// that has not come to an end with it in the time that it said gets a failure note.
[[nodiscard]] std::optional<int> wait_until_stored(const Context& context);

// The record of an attempt that could not begin, for `batchai job show`: beside the plan, whatever
// the plan itself says. Outside of an allocation, or where that directory is not ours, nothing.
void record_failed_start(const std::string& plan_path, const base::Error& error);

// Why a step failed, when it was not its own program's doing.

// Asks Slurm who ends the job, as long as Slurm still lets us run. slurmstepd writes it to the
// batch script's standard error, before it signals anybody; where that is no file, or says nothing,
// the controller is asked.
class SlurmsWord final : public OutsideWord {
  public:
    // Notices that are there already are of an earlier attempt.
    SlurmsWord(std::string job_id, int restart);

    [[nodiscard]] std::optional<record::EndedBy> why_job_ends() override;
    // How the attempt before this one ended, by the last notice that was there already.
    [[nodiscard]] std::optional<record::EndedBy> why_restarted() const { return earlier_; }

  private:
    [[nodiscard]] std::string said_since() const;

    std::string job_id_;
    int restart_;
    std::size_t read_ = 0;  // bytes of standard error that are older than this object
    std::optional<record::EndedBy> earlier_;
};

// The ending of an attempt whose step failed because the job was ended from outside meanwhile.
[[nodiscard]] std::optional<Ending> ended_from_outside(const Context& context,
                                                       const StepResult& result,
                                                       std::string_view phase);

// To be called before a step: what nodes note from here on is this step's.
void expect_node_failures(const Context& context);

// The first node that could not do its part of the step (a mount that failed), if there is one; for
// that, waits until the nodes have stored what the step wrote, unless the job was told to end, then
// or during the step (`stopped_by`). `ended_well`: the step itself did. Then only data that did not
// reach their storage count: a sandbox that failed was of a step that somebody else started in the
// job.
[[nodiscard]] std::optional<Ending> node_failure(const Context& context, std::string_view phase,
                                                 bool ended_well = false,
                                                 std::optional<int> stopped_by = {});

}  // namespace batchai::run
