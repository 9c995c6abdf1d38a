// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/negotiation/plan/buckets.hpp"
#include "engine/negotiation/plan/recorder.hpp"
#include "engine/negotiation/requests/pending_table.hpp"

namespace mpi_bridge {

// A name that has made the members leave their plan this often is no longer planned.
inline constexpr int most_plan_breaks = 3;

// Returns the executions of a step that are worth planning.
[[nodiscard]] std::vector<Sequenced> choose_planned(const PendingTable& names,
                                                    const std::vector<Recorder::Execution>& step);

// Returns the buckets of the plan, in order.
[[nodiscard]] std::vector<Bucket> make_buckets(const std::vector<Sequenced>& sequence,
                                               BucketLimits limits);

// Decides when a plan is given up for another one, because whole steps are executed outside the
// plan. If the plan is used beside them, a larger one might have both. But names that follow
// another rhythm than the plan's will not fit into any plan, so each decision takes twice as many
// steps as the one before. If no member uses the plan meanwhile, the program has come to another
// phase, and the plan is given up soon. Phases that are short and return, such as an evaluation
// between two epochs, would then make the plan of training anew each time, so this decision takes
// twice as many steps each time, too, up to a limit.
class PlanGrowth {
  public:
    // Records a step outside the plan, and whether a member has used the plan since the one before.
    // Returns whether it is time for a new plan.
    [[nodiscard]] bool step_seen(bool used);
    // A new plan was made, or the plan was left.
    void restart() { steps_ = unused_steps_ = 0; }

  private:
    std::uint64_t steps_ = 0;
    std::uint64_t unused_steps_ = 0;  // the latest of them, in which nobody has used the plan
    std::uint64_t needed_ = 4;
    std::uint64_t unused_needed_ = 1;
};

}  // namespace mpi_bridge
