// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/failure.hpp"
#include "engine/negotiation/announcement.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/plan/buckets.hpp"
#include "engine/negotiation/plan_change.hpp"
#include "engine/negotiation/readiness.hpp"
#include "engine/negotiation/requests/bits.hpp"

// How the members of a process set agree on what to run: in rounds, or by a plan.
//
//   round.hpp         a round, step by step, and the rules for the plan
//   member.hpp        what one rank knows as a member, from round to round
//   announcement.hpp  what a member says at the beginning of a round
//   agreement.hpp     the collectives by which the members agree
//   readiness.hpp     finds the names that can run after a round
//   plan_change.hpp   makes a plan, and leaves one
//   plan/             the plan: buckets in an order that repeats, which run without rounds
//   requests/         what has been submitted, under which name and number
namespace mpi_bridge {

// What the caller of a Round does next, and reports when it is done. `what` names the step, for
// messages.

// A barrier whose first message the other members see in Communicator::next_call(), so that they
// begin their round too.
struct CallTogether {};
// Combines every word over all members.
struct ReduceWords {
    std::string_view what;
    std::vector<Word> words;
    bool verifies_plan = false;
};
// Collects the bytes of each member, in the order of members.
struct GatherBytes {
    std::string_view what;
    std::vector<std::byte> bytes;
};
// Waits until no bucket of the plan runs here. If this rank has started fewer buckets than
// `started`, it then runs the head, even if it has not submitted all of it.
struct StopPlan {
    std::uint64_t started = 0;
};
// Runs one collective for all these operations, which every member has submitted. `requests` has
// `none` if this rank takes part without a tensor, because it has joined.
struct RunGroup {
    FusedGroup group;
    std::vector<RequestTable::Index> requests;
};
// The round is over.
struct RoundOver {
    bool closed = false;  // all members want the process set to end
};
using Step = std::variant<CallTogether, ReduceWords, GatherBytes, StopPlan, RunGroup, RoundOver>;

// A round of negotiation: the members of a process set tell each other what is new, run what all of
// them have then submitted, and make a plan or leave it.
//
// A rank begins a round when it has news, or when another member has begun one. All members go
// through the same steps, because each step follows from what all of them have heard. There is no
// leader, and a step takes a logarithmic number of messages.
//
// In a round each member tells, by one bit for each name of the pending table, whether it has
// submitted a request with the meaning that all members know, and announces each other request that
// it has submitted. The operations that all members have submitted are run, in an order that
// follows from the round. The first sequence of executions that repeats becomes the plan
// (plan_making.hpp), which runs without rounds.
//
// Leaving the plan. A rank can get stuck in the plan: it has started bucket p, and another member
// does not submit p's tensors before something later than p is done. The other member's program may
// have changed its order, or the member may have joined, or it may now mean something else by the
// name. That member asks to leave the plan, in a round; the plan never blocks a round, so this one
// takes place. (1) Every member stops starting buckets and tells how many it has started; the
// largest number is M. No member has started M + 1, because a bucket is started only after all
// earlier ones are finished, which takes every member. (2) Members that have not started bucket M
// start it at once, whether or not they have all its tensors. Each bucket begins with a check
// whether all members have all of it; if not, no member executes the bucket, and its tensors stay
// as they were. This frees every member that was stuck. (3) All waiting tensors are negotiated, and
// a new plan is recorded.
//
// Device memory. One DeviceGroup serves both the plan and the negotiated executions, and its
// members must give it the same operations in the same order. Each of the two runs in the same
// order on all members, but there is no order between them. So if a round has found an operation on
// device memory ready, and the plan has such operations too, the members pause the plan by (1) and
// (2), run the operation, and go on with the plan. They do the same to add a process set, because
// from then on the plan's operations on device memory take turns with those of the new set
// (device_executor.hpp), and all members must begin that at the same bucket.
//
// Like Member, a Round has no thread, lock, clock, socket or device.
class Round {
  public:
    explicit Round(Member& member) : member_(member), plan_change_(member) {}

    // Begins a round. The previous one must be over.
    [[nodiscard]] Step begin();
    // These report that the caller has done the step. If they return an error, all members get the
    // same one, and it ends the negotiation.
    [[nodiscard]] Outcome<Step> called_together();
    [[nodiscard]] Outcome<Step> reduced(const std::vector<Word>& words);
    [[nodiscard]] Outcome<Step> gathered(const std::vector<std::vector<std::byte>>& bytes);
    [[nodiscard]] Outcome<Step> plan_stopped(Clock::time_point now);
    // `refused` means that all members refuse the group alike; the negotiation then goes on.
    [[nodiscard]] Outcome<Step> group_done(const RunGroup& done, const Done& outcome, bool refused,
                                           Clock::time_point now);

    // The global ranks that have not submitted a request, according to the latest answers to
    // `asks_who`: bit r % 64 of word r / 64 is rank r. Empty if no member has asked.
    [[nodiscard]] Bits missing(RequestTable::Index index) const;

    // Results that the caller takes out: whether the members have told who has submitted what, and
    // which global ranks have announced which request.
    bool who_heard = false;
    std::vector<std::pair<RequestTable::Index, int>> heard_from;

  private:
    enum class Wait : std::uint8_t {
        nothing,
        call,
        words,
        requests,
        joins,
        leave,
        who,
        pause,
        plan,
        grow,
        close,
    };

    [[nodiscard]] Outcome<Step> next_exchange();
    [[nodiscard]] Outcome<Step> after_exchanges();
    [[nodiscard]] Outcome<Step> next_group();
    [[nodiscard]] Outcome<Step> after_groups();
    [[nodiscard]] Step over();
    [[nodiscard]] Step stop_plan(Wait for_what, std::string_view what, std::vector<Word> words);

    void hear_from_all();
    [[nodiscard]] Done hear(const std::vector<std::vector<std::byte>>& bytes);
    void heard(PendingTable::Id id);
    void forget_names();

    Member& member_;
    Wait wait_ = Wait::nothing;
    Clock::time_point now_;

    // State of this round.
    Announcement said_;             // what this member says, and later what all have said
    std::uint64_t to_do_ = 0;       // wishes for exchanges that are still to be made
    std::vector<Word> objections_;  // to the plan, as reduced when it was stopped
    std::deque<FusedGroup> groups_;
    bool paused_ = false;

    // Kept from round to round.
    Joined joined_;
    std::vector<Bits> submitted_;  // by member, a bit for each name; see missing()
    PlanChange plan_change_;
};

}  // namespace mpi_bridge
