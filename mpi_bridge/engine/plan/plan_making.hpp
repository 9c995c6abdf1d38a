// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "engine/negotiation/pending_table.hpp"
#include "engine/plan/buckets.hpp"
#include "engine/plan/planned_order.hpp"
#include "engine/plan/recorder.hpp"

namespace mpi_bridge {

// A name that made the members leave their plan that often is left to negotiation.
inline constexpr int most_plan_breaks = 3;

// Returns those of a step's executions that are worth planning.
[[nodiscard]] std::vector<Sequenced> choose_planned(const PendingTable& names,
                                                    const std::vector<Recorder::Execution>& step);

// Returns the buckets of the plan, in order.
[[nodiscard]] std::vector<PlannedBucket> make_buckets(const PendingTable& names,
                                                      const std::vector<Sequenced>& sequence,
                                                      BucketLimits limits);

// Decides when a plan is given up for a larger one, because whole steps are seen beside it. Names
// that come in another rhythm than the plan's will not fit into any plan, so each time takes twice
// as many steps as the time before.
class PlanGrowth {
  public:
    // A step has been seen beside the plan. Returns whether it is time for a new plan.
    [[nodiscard]] bool step_seen();
    // There is a new plan, or none.
    void restart() { steps_ = 0; }

  private:
    std::uint64_t steps_ = 0;
    std::uint64_t needed_ = 4;
};

}  // namespace mpi_bridge
