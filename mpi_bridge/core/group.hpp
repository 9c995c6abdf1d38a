// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

namespace mpi_bridge {

// The ranks that take part in a collective call: all of the job, or a process set. Members are
// numbered from 0 in the order of their global ranks; collectives know only these numbers.
struct Group {
    std::vector<int> ranks;  // global ranks, ascending
    int own = 0;             // this process's index in `ranks`
    // For each member, the number of its host among the group's hosts, which are numbered by their
    // lowest member.
    std::vector<int> hosts;

    [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
};

// A separate stream of collective calls. Calls of one channel are matched by order. Calls of
// different channels are independent and may run at the same time on different threads.
struct Channel {
    static constexpr unsigned lane_bits = 3;
    static constexpr unsigned group_bits = 9;

    enum class Lane : unsigned {
        direct = 0,      // the blocking functions of mpi_bridge.h
        planned = 1,     // planned operations of the engine
        negotiated = 2,  // negotiated operations of the engine
        control = 3,     // the messages by which the engine negotiates
        device = 4,      // device memory staged through the host, where NCCL cannot serve
        messages = 5,    // between two ranks; see messages/note.hpp
    };

    static constexpr unsigned last_lane = static_cast<unsigned>(Lane::messages);

    Lane lane = Lane::direct;
    unsigned group = 0;  // id of the process set, below 2^group_bits

    [[nodiscard]] constexpr unsigned number() const {
        return group << lane_bits | static_cast<unsigned>(lane);
    }
    [[nodiscard]] static constexpr Lane lane_of(unsigned number) {
        return static_cast<Lane>(number & ((1U << lane_bits) - 1));
    }
};

}  // namespace mpi_bridge
