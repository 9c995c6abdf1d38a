// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "messages/protocol.hpp"
#include "mpi_bridge.h"
#include "simulation.hpp"

namespace message_schedules {

using Bytes = std::vector<std::byte>;

inline constexpr std::byte untouched{0xEE};

// A message that a rank's program has posted.
struct Posted {
    int rank = 0;
    bool receives = false;
    int peer = 0;
    std::int64_t tag = 0;
    std::string channel{};
    int number = 0;  // in the order in which its rank has posted messages
    Bytes memory{};
    std::set<int> known_gone{};  // the ranks that its rank knew to have left when it was posted
    bool moving = false;
    bool complete = false;
    mpib_status status = MPIB_OK;
    int found_peer = 0;         // when it was complete
    Bytes at_the_end{};         // of a receive: its memory when it was complete
    bool matched = false;       // of a send: a receive has taken its data
    bool with_data = false;     // of a send: its data has travelled with the offer
    bool withdrawn = false;     // of a send: its receiver has heard that it was given up
    bool taken_before = false;  // of a send: a receive had taken it before, though not its data

    [[nodiscard]] bool well() const { return complete && status == MPIB_OK; }
};

struct Rank {
    explicit Rank(std::function<bool(int)> is_gone) : protocol(std::move(is_gone)) {}

    mpi_bridge::Protocol protocol;
    std::optional<mpi_bridge::Protocol::Action> action{};  // the next one
    std::map<mpi_bridge::Protocol::Id, Posted*> posted{};  // that are not complete
    Posted* latest = nullptr;
    std::vector<const Posted*> undelivered{};  // must be complete after what is under way
    int left_to_post = 0;
    int count = 0;
    bool left = false;
    std::set<int> gone{};                  // the ranks that this one knows to have left
    std::map<int, std::size_t> carried{};  // by peer: bytes of the offers with data, unanswered
};

// The ranks and all messages that their programs have posted, and what must be true of them.
struct World {
    Rank& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
    void fault(std::string text) {
        if (result.fault.empty()) result.fault = std::move(text);
    }

    // A receive has taken a message.
    void take(const Posted& receive);
    void check_that_nothing_is_stuck(bool gives_up);
    void check_ends();

    Result result;
    bool somebody_left = false;
    std::vector<std::unique_ptr<Rank>> ranks;
    std::vector<std::unique_ptr<Posted>> all;
    std::map<Bytes, Posted*> contents;  // of the sends

  private:
    void check_end_of_send(const Posted& send);
    void count(const Posted& posted);
};

}  // namespace message_schedules
