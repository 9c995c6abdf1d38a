// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/negotiation/round.hpp"

namespace schedules {

// A call of a collective: what must be the same on all members, and what differs.
struct Call {
    std::string contents;
    std::vector<mpi_bridge::Word> words;  // to reduce
    std::vector<std::byte> bytes;         // to gather
    bool whole = true;                    // of the head of a plan
};

struct Answer {
    std::vector<mpi_bridge::Word> words;
    std::vector<std::vector<std::byte>> bytes;
    bool whole = true;
};

// A communicator: the members' calls, one after the other.
class Channel {
  public:
    explicit Channel(std::size_t members) : calls_(members), answers_(members) {}

    void call(std::size_t member, Call call) { calls_[member] = std::move(call); }
    [[nodiscard]] bool begun() const {
        return std::any_of(calls_.begin(), calls_.end(), [](const auto& call) { return call; });
    }
    [[nodiscard]] std::optional<Answer>& answer(std::size_t member) { return answers_[member]; }

    // If all members have called, ends the call for all of them. Returns what is wrong with it.
    [[nodiscard]] std::string complete_if_all_called();

  private:
    std::vector<std::optional<Call>> calls_;
    std::vector<std::optional<Answer>> answers_;
};

}  // namespace schedules
