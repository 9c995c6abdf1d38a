// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/plan/buckets.hpp"
#include "engine/negotiation/plan/planned_order.hpp"
#include "engine/negotiation/plan/recorder.hpp"
#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/pending_table.hpp"
#include "engine/negotiation/requests/request_table.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// A request that is done.
struct Completion {
    RequestTable::Index index = RequestTable::none;
    std::optional<Failure> failure;
    int last_joined = -1;  // of a join
};

// What one rank knows as a member of a process set: its own requests, what the members have agreed
// on, and the plan. It changes by events (the functions below, and the steps of Round), and leaves
// their consequences in `completions` and in its flags. It has no thread, lock, clock, socket or
// device: the caller calls one function at a time, passes the time where it matters, and acts on
// the consequences.
//
// The rules by which the members make a plan and leave it are in round.hpp.
class Member {
  public:
    using Index = RequestTable::Index;

    struct Options {
        std::vector<int> ranks;  // of the members, ascending
        int own = 0;             // index of this rank among them
        // Digest of the settings that must be the same on all members; they compare it in each
        // round.
        std::uint64_t settings_digest = 0;
        BucketLimits limits;
        std::size_t names = PendingTable::usual_capacity;
        std::uint32_t first_generation = 0;  // of handles; see RequestTable
    };

    explicit Member(Options options);

    [[nodiscard]] int size() const { return static_cast<int>(options.ranks.size()); }
    [[nodiscard]] int own_rank() const {
        return options.ranks[static_cast<std::size_t>(options.own)];
    }
    // Returns text such as: allreduce "x".
    [[nodiscard]] std::string described(const OwnRequest& request) const;

    // ---- Events of the program ----

    struct Submission {
        Index index = RequestTable::none;
        bool negotiate = false;   // the other members must be told of it
        bool head_ready = false;  // the head of the plan can run now
    };
    // Submits a request of the program. The operation must have passed check_operation().
    [[nodiscard]] Outcome<Submission> submit(const mpib_operation& operation,
                                             Clock::time_point now);
    // Submits a change of the process sets, which every member has to ask for.
    [[nodiscard]] Outcome<Submission> submit(const Descriptor& change, Clock::time_point now);
    // The length of a planned request is known now; the plan does not know those that may differ.
    void note_length(const OwnRequest& request);
    // The program has seen that a request is done.
    void saw_end(Index index);
    // The program has released a request that is done.
    void release(Index index);
    // The program wants the process set to end; it ends once all members want that.
    void close() { closing = true; }
    // The program will submit nothing more to a set that only its members know. No round is told,
    // because other members may have left by then: each member tells each other one outside of the
    // rounds when it is idle, and the set has ended when all have said so.
    void retire() { retired = true; }
    // Whether no request of the program waits or runs.
    [[nodiscard]] bool idle() const;

    // ---- Events of the thread that runs the plan ----

    struct Head {
        Bucket* bucket = nullptr;
        bool whole = false;           // this rank has submitted all of it
        std::vector<Index> requests;  // in the order of its groups' ids; `none`: not in use here
    };
    // Starts the head of the plan and fills in `head`, whose memory is reused.
    void start_head(Head& head);
    // `executed` is true if all members have executed the head, and false if none has, because a
    // member had not submitted all of it.
    void finish_head(const Head& head, const Outcome<bool>& executed);
    // The head has waited for requests of this rank for too long, while other operations of the
    // plan are waited for.
    void order_has_changed();

    // ---- Failure ----

    // Every waiting request, and each one to come, fails with this failure, unless the member has
    // failed already.
    void abandon(const Failure& cause);

    // ---- For the negotiation thread ----

    // Whether there is something to tell the other members.
    [[nodiscard]] bool has_news() const;
    [[nodiscard]] bool wants_to_leave_plan() const { return wants_to_leave && plan.active(); }

    // ---- For Round ----

    // Updates whether all members already know what this rank means by the name.
    void reconsider(OwnRequest& request) const;
    // All members have joined; `last` is the global rank of the last one.
    void complete_join(int last);
    void complete(Index index, std::optional<Failure> failure, int last_joined = -1);
    void adopt(std::vector<Bucket> buckets, Clock::time_point now);
    void drop_plan();

    const Options options;
    RequestTable requests;
    PendingTable names;
    PlannedOrder plan;
    Recorder recorder;
    std::vector<Completion> completions;  // the caller takes them out
    std::optional<Failure> failure;       // the failure of every request from now on

    // A group of operations of which the members have announced one differently. None of it runs.
    struct SpoiltGroup {
        int left = 0;  // its operations that are yet to fail
        std::string why;
    };
    std::map<std::string, SpoiltGroup> spoilt_groups;  // by name, the same on all members

    bool joined = false;           // this rank has joined
    bool joined_reported = false;  // the other members know
    bool wants_to_leave = false;   // this rank wants to leave the plan
    bool uses_plan = false;        // it has submitted something of the plan since its last round
    bool order_changed = false;    // the reason: its head was not submitted in the planned order
    bool asks_who = false;         // the members are to tell what each of them has submitted
    bool closing = false;
    bool closing_reported = false;  // the other members know
    bool retired = false;
    std::uint64_t serial = 0;  // of the latest negotiated execution
    int plans_left = 0;        // how often a member has asked to leave a plan

  private:
    [[nodiscard]] Outcome<Index> claim_name(const mpib_operation& operation);
    [[nodiscard]] Submission put_in_line(Index index, Clock::time_point now);

    // Operations without a name are counted anew after each join. Ranks that submitted some while
    // another had joined have counted further than that one, and later operations would never
    // match.
    std::array<std::uint64_t, MPIB_KIND_COUNT> unnamed_{};
    std::uint64_t joins_ = 0;
    std::uint64_t submissions_ = 0;
    std::uint64_t observed_ = 0;  // serial number of the latest execution that was seen to end
};

}  // namespace mpi_bridge
