// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/descriptor.hpp"
#include "engine/negotiation/pending_table.hpp"
#include "engine/negotiation/request_table.hpp"
#include "engine/plan/buckets.hpp"
#include "engine/plan/planned_order.hpp"
#include "engine/plan/recorder.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// A request that has come to its end.
struct Completion {
    RequestTable::Index index = RequestTable::none;
    std::optional<Failure> failure;
    int last_joined = -1;  // of a join
};

// What one rank knows as a member of a process set: its own requests, what the members have agreed
// on, and the plan. It changes by events (the functions below, and the steps of Round) and leaves
// what follows from them in `completions` and in its flags. It has no thread, lock, clock, socket
// or device: the caller calls one function at a time, tells the time where it matters, and sees to
// what follows.
//
// The rules by which the members come to a plan and leave it are in round.hpp.
class Member {
  public:
    using Index = RequestTable::Index;

    struct Options {
        std::vector<int> ranks;  // of the members, ascending
        int own = 0;             // index of this rank among them
        // What must be the same on all members; they compare it in each round.
        std::uint64_t settings_digest = 0;
        BucketLimits limits;
        std::size_t names = PendingTable::usual_capacity;
    };

    explicit Member(Options options);

    [[nodiscard]] int size() const { return static_cast<int>(options.ranks.size()); }
    [[nodiscard]] int own_rank() const {
        return options.ranks[static_cast<std::size_t>(options.own)];
    }
    // Returns for example: allreduce "x".
    [[nodiscard]] std::string described(const OwnRequest& request) const;

    // ---- Events of the program ----

    struct Submission {
        Index index = RequestTable::none;
        bool negotiate = false;   // the other members have to hear of it
        bool head_ready = false;  // the head of the plan can run now
    };
    // A request of the program. The operation must have passed check_operation().
    [[nodiscard]] Outcome<Submission> submit(const mpib_operation& operation,
                                             Clock::time_point now);
    // A change of the process sets, which every member has to ask for.
    [[nodiscard]] Outcome<Submission> submit(const Descriptor& change, Clock::time_point now);
    // The program has seen the end of a request.
    void saw_end(Index index);
    // The program has released a request that is done.
    void release(Index index);
    // The program wants the process set to end, which it does when all members want that.
    void close() { closing = true; }

    // ---- Events of the lane that runs the plan ----

    struct Head {
        PlannedBucket* bucket = nullptr;
        bool whole = false;           // this rank has submitted all of it
        std::vector<Index> requests;  // in the order of its groups' ids; `none`: not in use here
    };
    // Fills in `head`, whose memory is used again.
    void start_head(Head& head);
    // `executed`: by all members; otherwise, because a member had not submitted all of it, by none.
    void finish_head(const Head& head, const Outcome<bool>& executed);
    // The head has been waiting for requests of this rank while others of the plan are waited for.
    void order_has_changed();

    // ---- Failure ----

    // Every request that waits, and each one to come, fails with this failure, unless the member
    // has failed already.
    void fail(const Failure& failure);

    // ---- What the negotiation looks at ----

    // Something has to be told to the other members.
    [[nodiscard]] bool has_news() const;
    [[nodiscard]] bool wants_to_leave_plan() const { return wants_to_leave && plan.active(); }

    // ---- For Round ----

    // Whether all members know already what this rank means by the name.
    void reconsider(OwnRequest& request) const;
    // All members have joined; the last was that global rank.
    void complete_join(int last);
    void complete(Index index, std::optional<Failure> failure, int last_joined = -1);
    void fail_waiting(const Failure& failure);
    void adopt(std::vector<PlannedBucket> buckets, Clock::time_point now);
    void drop_plan();

    const Options options;
    RequestTable requests;
    PendingTable names;
    PlannedOrder plan;
    Recorder recorder;
    std::vector<Completion> completions;  // for the caller, who takes them out
    std::optional<Failure> failure;       // with which each request from now on fails

    bool joined = false;           // this rank has joined
    bool joined_reported = false;  // the other members know
    bool wants_to_leave = false;   // the plan
    bool order_changed = false;    // ... because what comes first in it did not come
    bool asks_who = false;         // the members are to tell what each of them has submitted
    bool closing = false;
    std::uint64_t serial = 0;  // of the latest negotiated execution
    int plans_left = 0;        // how often a member has asked to leave a plan

  private:
    [[nodiscard]] Outcome<Index> claim_name(const mpib_operation& operation);
    [[nodiscard]] Submission put_in_line(Index index, Clock::time_point now);

    // Operations without a name are counted anew after each join: ranks that submitted some while
    // another had joined have counted further than that one, and what follows would never meet.
    std::array<std::uint64_t, MPIB_KIND_COUNT> unnamed_{};
    std::uint64_t joins_ = 0;
    std::uint64_t submissions_ = 0;
    std::uint64_t observed_ = 0;  // serial number of the latest execution whose end was seen
};

}  // namespace mpi_bridge
