// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/requests/descriptor.hpp"
#include "engine/negotiation/requests/pending_table.hpp"
#include "gpu/device_group.hpp"

namespace mpi_bridge {

// A named operation of this rank: the latest one under its name, with its memory and its result,
// and what is remembered of the name to make the next one fast.
struct OwnRequest {
    enum class State : std::uint8_t {
        free,     // no operation of this name is in flight
        waiting,  // submitted; it waits for other tensors, other ranks, or its turn
        running,  // a thread runs its collective and uses its memory
        done,     // stays so until it is released
    };

    std::string name;
    State state = State::free;
    Descriptor descriptor;
    std::uint64_t number = 0;      // counts this rank's submissions
    std::uint32_t generation = 0;  // of the handle; grows with every release, and never wraps
    // At its submission: serial number of the latest execution whose end this rank had seen.
    std::uint64_t after = 0;

    // ---- For the negotiation and the plan ----

    PendingTable::Id id = PendingTable::none;
    bool settled = false;    // the record of `id` is settled with what this rank means
    bool announced = false;  // the other members have heard what this rank means
    bool reported = false;   // the other members know that it is submitted here

    bool planned = false;  // it waits in the plan, so the other members need not be told
    int bucket = -1;       // the plan's bucket that contains this name; -1: none

    // State of its latest execution.
    std::uint64_t serial = 0;
    std::uint64_t executed_after = 0;  // `after` of the operation that was executed

    // ---- For the execution ----

    // The operation as the caller gave it.
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t room = 0;              // bytes that recv can hold; see room_of()
    std::int64_t rows = 0;             // length of the first dimension of send
    std::vector<std::int64_t> splits;  // rows to each member; empty: equal parts
    std::size_t bytes = 0;             // of send
    void* stream = nullptr;            // of an operation on device memory
    bool waited_for = false;
    Clock::time_point submitted;
    std::optional<Clock::time_point> awaited;  // when a thread first waited for the end

    std::optional<Failure> failure;  // once done
    std::optional<Failure> refusal;  // all members refused it alike, before any data was sent
    std::vector<std::byte> owned;    // the result if the caller gave no recv
    Memory device_owned;             // the same for an operation on device memory
    DeviceNote note;                 // position of the stream at the submission, if known
    DeviceTicket ticket;             // once done: what to ask the device for
    std::int64_t result_rows = 0;
    std::vector<std::int64_t> received_rows;
    int last_joined = -1;

    [[nodiscard]] bool waits() const { return state == State::waiting; }
    [[nodiscard]] bool done() const { return state == State::done; }
    [[nodiscard]] bool free() const { return state == State::free; }
};

}  // namespace mpi_bridge
