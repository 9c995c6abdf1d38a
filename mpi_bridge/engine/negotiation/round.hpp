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
#include "engine/negotiation/bits.hpp"
#include "engine/negotiation/member.hpp"
#include "engine/negotiation/readiness.hpp"
#include "engine/negotiation/request.hpp"
#include "engine/plan/buckets.hpp"
#include "engine/plan/plan_making.hpp"

namespace mpi_bridge {

// What the members reduce: a mask by OR, and beside it a number by MAX.
struct Word {
    std::uint64_t mask = 0;
    std::uint64_t number = 0;
};

// What the caller of a Round does next, and reports when it has done it. `what` names the step, for
// messages.

// A barrier whose first message the other members see in Communicator::next_call(), so that they
// begin their round too.
struct CallTogether {};
// Every word becomes that of all members.
struct Reduce {
    std::string_view what;
    std::vector<Word> words;
    bool verifies_plan = false;
};
// The bytes of each member, by member.
struct Gather {
    std::string_view what;
    std::vector<std::byte> bytes;
};
// Waits until no bucket of the plan runs here. Runs the head then, whether this rank has submitted
// all of it or not, if it has started fewer buckets than `started`.
struct StopPlan {
    std::uint64_t started = 0;
};
// Runs one collective for all these requests, which every member has submitted. `requests` has
// `none` where this rank takes part without a tensor, because it has joined.
struct RunGroup {
    FusedGroup group;
    std::vector<RequestTable::Index> requests;
    std::vector<std::size_t> counts;  // elements of each; for allreduces only
};
// The round is over.
struct RoundOver {
    bool closed = false;  // all members want the process set to end
};
using Step = std::variant<CallTogether, Reduce, Gather, StopPlan, RunGroup, RoundOver>;

// A round of negotiation: the members of a process set tell each other what is new, run what is
// then submitted on all of them, and come to a plan or leave it.
//
// A rank begins a round when it has news, or when another member has begun one. All members go
// through the same steps, because each next step follows from what all of them have heard. No
// member has a special part, and a step takes a logarithmic number of messages.
//
// In a round each member says, for each name of the pending table, whether it has submitted a
// request that means what all know it to mean (a bit), and announces each other request it has
// submitted. What all have submitted is run, in the order that follows from the round. The first
// sequence of executions that repeats becomes the plan (plan_making.hpp), which runs without
// rounds.
//
// Leaving the plan. A rank can get stuck in the plan: it has started bucket p, and another member
// does not submit p's tensors before something later than p is done, because its program's order
// has changed, because it has joined, or because it now means something else by the name. That
// member asks to leave the plan, in a round; rounds are never blocked by the plan, so this one
// takes place. (1) Every member stops starting buckets and tells how many it has started; the
// largest number is M. No member has started M + 1, since to start a bucket one must have finished
// all before it, which takes every member. (2) Members that have not started bucket M do so at
// once, whether or not they have all its tensors. The head of each bucket says whether all have; if
// not, nobody's bucket is executed and its tensors stay as they were. So whoever was stuck comes
// free. (3) All tensors that wait are negotiated, and a new plan is recorded.
//
// Device memory. One device executor serves the plan and the negotiated executions, and its members
// must give it the same operations in the same order. Each of the two is in the same order on all
// members, but there is no order between them. So if a round has found an operation on device
// memory ready, and the plan has such operations, the members pause the plan by (1) and (2), run
// the operation, and go on with the plan.
//
// Like Member, a Round has no thread, lock, clock, socket or device.
class Round {
  public:
    explicit Round(Member& member) : member_(member) {}

    // Begins a round. The latest one must be over.
    [[nodiscard]] Step begin();
    // The step that the caller has done is over. An error is one of all members alike, and ends
    // the negotiation.
    [[nodiscard]] Outcome<Step> called_together();
    [[nodiscard]] Outcome<Step> reduced(const std::vector<Word>& words);
    [[nodiscard]] Outcome<Step> gathered(const std::vector<std::vector<std::byte>>& bytes);
    [[nodiscard]] Outcome<Step> plan_stopped(Clock::time_point now);
    // `refused`: all members refuse the group alike, and the negotiation goes on.
    [[nodiscard]] Outcome<Step> group_done(const RunGroup& done, const Done& outcome, bool refused,
                                           Clock::time_point now);

    // The masks of the members that have not submitted a request, as the latest answers to
    // `asks_who` say: bit r of word r / 64 is global rank r. Empty if nobody has asked.
    [[nodiscard]] Bits missing(RequestTable::Index index) const;

    // For the caller, who empties them: the members have told who has submitted what; and which
    // global ranks have been heard to have submitted which request.
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

    void collect();
    [[nodiscard]] Outcome<Step> next_exchange();
    [[nodiscard]] Outcome<Step> after_exchanges();
    [[nodiscard]] Outcome<Step> next_group();
    [[nodiscard]] Outcome<Step> after_groups();
    [[nodiscard]] Step over();
    [[nodiscard]] bool closed() const;
    [[nodiscard]] Step stop_plan(Wait for_what, std::string_view what, std::vector<Word> words);
    [[nodiscard]] Step verify_plan(std::vector<Sequenced> sequence);
    [[nodiscard]] Done adopt_plan(const std::vector<Word>& words);

    void hear_from_all();
    [[nodiscard]] Done hear(const std::vector<std::vector<std::byte>>& bytes);
    void heard(PendingTable::Id id);
    void count_joined(const std::vector<Word>& words);
    [[nodiscard]] bool all_have_joined() const;
    [[nodiscard]] std::vector<Word> leave_words() const;
    void leave_plan(bool asked);
    void forget_names();

    Member& member_;
    Wait wait_ = Wait::nothing;
    Clock::time_point now_;

    // Of this round.
    std::vector<NamedRequest> announced_;
    std::vector<std::byte> encoded_;
    std::size_t bits_ = 0;     // names of the pending table that have a bit
    std::vector<Word> heard_;  // what all have said
    std::uint64_t to_do_ = 0;  // Status bits of exchanges that are still to come
    Bits words_;               // masks of the words that were reduced to stop the plan
    std::deque<FusedGroup> groups_;
    bool paused_ = false;
    std::vector<Sequenced> sequence_;  // of the plan that is being verified
    std::uint64_t digest_ = 0;

    // Kept from round to round.
    Joined joined_;
    std::vector<Bits> submitted_;  // by member, a bit for each name; see missing()
    PlanGrowth growth_;
};

}  // namespace mpi_bridge
