// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "core/waits.hpp"
#include "liveness/finding.hpp"
#include "trace/stall.hpp"

namespace mpi_bridge {

// Decides which ranks to ask whether they are alive, because this rank has waited long for them,
// and what to report about them. Pure: the caller passes the time and the answers. One thread at a
// time may call.
//
// A rank is asked after a second, and then less and less often. A rank that does not answer in time
// is called silent; then another rank on its host is asked what the kernel says about its process.
class LivenessCheck {
  public:
    // own_rank matters because rank 0 also reports ranks that are waiting themselves: if ranks wait
    // for each other in a circle, there are no others to report.
    LivenessCheck(int own_rank, const StallSettings& settings);

    // The interval at which to call look().
    [[nodiscard]] Seconds interval() const { return interval_; }

    struct Orders {
        std::vector<int> ask;        // ask these ranks about their state
        std::vector<int> ask_about;  // ask another rank of their host about these
        bool report = false;         // report findings() now
        std::optional<std::pair<int, Seconds>> give_up;  // the rank, and the time waited for it
        std::vector<int> gone;  // ranks still waited for whose process has ended
    };
    // `blocked` holds the waits of this moment.
    [[nodiscard]] Orders look(std::span<const Waits::Blocked> blocked, Clock::time_point now);

    // Whether an operation of the engine was waiting for the rank at the latest look().
    [[nodiscard]] bool engine_waits_for(int rank) const {
        const auto found = peers_.find(rank);
        return found != peers_.end() && found->second.engine;
    }

    // Record the answers. Answers about ranks that are no longer waited for are ignored.
    void answered(int rank, int waits_for, char state, Clock::time_point now);
    void told_about(int rank, char state, Clock::time_point now);
    void neighbour_is_silent(int rank, int neighbour);
    void gone(int rank);

    // Ranks that were asked and have not answered yet.
    [[nodiscard]] std::vector<int> unanswered() const;
    [[nodiscard]] std::vector<Finding> findings(Clock::time_point now) const;

  private:
    // The record of a rank that is waited for.
    struct Peer {
        Clock::time_point since;                 // when the oldest wait for it was first seen
        bool direct = false;                     // a direct call waits for it
        bool engine = false;                     // an operation of the engine does
        std::optional<Clock::time_point> asked;  // when it was asked, if it has not answered yet
        Clock::time_point next_question;
        Seconds pause{0};  // until the next question
        bool answered = false;
        int waits_for = -1;
        char state = process_state::unknown;
        Clock::time_point state_since;
        bool asked_about = false;
        int silent_neighbour = -1;
        bool gone = false;
        bool gone_was_told = false;  // reported by look() as still waited for
    };
    void note_state(Peer& peer, char state, Clock::time_point now);
    void take_waits(std::span<const Waits::Blocked> blocked, Clock::time_point now);
    [[nodiscard]] bool silent(const Peer& peer, Clock::time_point now) const;

    int own_rank_;
    StallSettings settings_;
    Seconds interval_;
    Seconds answer_time_;  // a rank that takes longer is called silent
    StallWatch stall_watch_;
    std::map<std::pair<int, std::uint32_t>, Clock::time_point> waits_;  // by place and serial
    std::map<int, Peer> peers_;
    std::optional<Clock::time_point> report_at_;
};

}  // namespace mpi_bridge
