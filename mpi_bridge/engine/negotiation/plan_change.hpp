// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/plan/buckets.hpp"
#include "engine/negotiation/plan/plan_making.hpp"
#include "engine/negotiation/requests/bits.hpp"

namespace mpi_bridge {

// How the members make a plan and leave one. After the same round, all members see the same step.
// They compare it before they adopt it, and each member adds what only it knows: which requests
// must not share a bucket.
class PlanChange {
  public:
    explicit PlanChange(Member& member) : member_(member) {}

    enum class Next {
        nothing,
        verify,  // proposal() is to be reduced, and adopt() to be called with the result
        leave,   // the plan is to be left for a larger one
    };
    // A member has used the plan.
    void plan_used() { used_ = true; }
    // Decides what follows from the steps recorded so far.
    [[nodiscard]] Next next();

    // Returns what this member knows of the step.
    [[nodiscard]] std::vector<Word> proposal();
    // Takes the members' reduced proposals. Fails if they have recorded different steps.
    [[nodiscard]] Done adopt(const std::vector<Word>& words, Clock::time_point now);

    // Returns a bit for each name that keeps this rank's plan from going on. The bits begin in the
    // second word; the first is left free for the caller.
    [[nodiscard]] std::vector<Word> objections() const;
    // Leaves the plan, with the objections of all members. `asked` means that a member wanted that.
    void leave(const std::vector<Word>& objections, bool asked);

  private:
    Member& member_;
    PlanGrowth growth_;
    bool used_ = false;                // the plan, since the latest step outside of it
    std::vector<Sequenced> sequence_;  // the plan that is being verified
    std::uint64_t digest_ = 0;
};

}  // namespace mpi_bridge
