// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/failure.hpp"
#include "liveness/identity.hpp"

namespace mpi_bridge {

// The only kind of message between heartbeats. It travels as it is in memory: both ends have the
// same byte order, or the handshake fails.
struct HeartbeatMessage {
    enum class Kind : std::uint32_t {
        question,        // for_engine; asks for the state of the receiving rank
        answer,          // waits_for, state, and the failure if there is one
        question_about,  // asks what the kernel says about the process of `rank` on the receiver's
                         // host
        answer_about,    // rank, state
        failure,         // a failure has happened on `rank`
    };

    Kind kind = Kind::question;
    std::int32_t rank = -1;
    std::int32_t waits_for = -1;
    std::int32_t status = MPIB_OK;  // of the failure; MPIB_OK if there is none
    char state = process_state::unknown;
    bool for_engine = false;        // the engine of the asking rank waits for the receiving one
    std::array<char, 1002> text{};  // of the failure; ends with '\0'

    // Reports a failure of this rank. A text that is too long is cut.
    [[nodiscard]] static HeartbeatMessage of_failure(int rank, const Failure& failure);

    // Returns the failure as the receiver should know it, with the rank it happened on in the text.
    [[nodiscard]] Failure failure() const;
    // Whether the kind is one that this version knows.
    [[nodiscard]] bool known() const { return kind <= Kind::failure; }
};
static_assert(sizeof(HeartbeatMessage) == 1020);

// The ranks that a rank tells about a failure: those whose number differs in one bit, and its two
// neighbours. These few suffice for all ranks to be told, each in several ways.
[[nodiscard]] std::vector<int> failure_neighbours(int rank, int size);

}  // namespace mpi_bridge
