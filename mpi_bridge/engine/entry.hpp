// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/request_table.hpp"
#include "gpu/device_group.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// The memory, the result and the handle of an operation in flight. Its progress is in the request.
struct Entry {
    // The request with the same index. Never null while the operation is in flight.
    const OwnRequest* request = nullptr;
    std::uint32_t generation = 0;  // of the handle; grows with every release, and never wraps

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

    // State of the execution.
    std::optional<Failure> failure;  // once done
    bool refused = false;            // all members refused it alike, before any data was sent
    std::vector<std::byte> owned;    // the result if the caller gave no recv
    Memory device_owned;             // the same for an operation on device memory
    DeviceNote note;                 // position of the stream at the submission, if known
    DeviceTicket ticket;             // once done: what to ask the device for
    std::int64_t result_rows = 0;
    std::vector<std::int64_t> received_rows;
    int last_joined = -1;

    [[nodiscard]] const std::string& name() const { return request->name; }
    [[nodiscard]] const Descriptor& descriptor() const { return request->descriptor; }
    [[nodiscard]] bool waits() const { return request->stage == OwnRequest::Stage::waiting; }
    [[nodiscard]] bool runs() const { return request->stage == OwnRequest::Stage::running; }
    [[nodiscard]] bool done() const { return request->stage == OwnRequest::Stage::done; }
    [[nodiscard]] bool free() const {
        return request == nullptr || request->stage == OwnRequest::Stage::free;
    }
};

// An operation in flight as the caller identifies it: the process set, the entry, and which use of
// the entry.
struct Handle {
    static constexpr unsigned entry_bits = 24;
    static constexpr unsigned generation_bits = 24;
    static constexpr unsigned set_bits = 14;
    static_assert(RequestTable::most < std::size_t{1} << entry_bits);
    // An entry whose generation comes to this is not used again, because its earlier handles would
    // be valid once more.
    static constexpr std::uint32_t generations = std::uint32_t{1} << generation_bits;

    std::uint32_t set = 0;  // number of the process set's engine, which is never reused
    std::uint32_t entry = 0;
    std::uint32_t generation = 0;  // below `generations`

    // Never returns 0, because entries are counted from 1.
    [[nodiscard]] mpib_handle pack() const {
        const auto upper = static_cast<std::uint64_t>(generation) << set_bits | set;
        return static_cast<mpib_handle>(upper << entry_bits | (entry + 1));
    }
    // Returns nullopt for a number that pack() did not make.
    [[nodiscard]] static std::optional<Handle> unpack(mpib_handle packed) {
        const auto bits = static_cast<std::uint64_t>(packed);
        const auto entry = static_cast<std::uint32_t>(bits & ((1U << entry_bits) - 1));
        if (packed <= 0 || entry == 0) return std::nullopt;
        Handle handle;
        handle.entry = entry - 1;
        handle.set = static_cast<std::uint32_t>(bits >> entry_bits) & ((1U << set_bits) - 1);
        handle.generation = static_cast<std::uint32_t>(bits >> (entry_bits + set_bits));
        return handle;
    }
};

// mpib_device_mark(): a ticket of the DeviceGroup of one process set.
struct DeviceMark {
    static constexpr unsigned ticket_bits = 63 - Handle::set_bits;

    std::uint32_t set = 0;  // as in Handle
    DeviceTicket ticket;

    [[nodiscard]] std::int64_t pack() const {
        if (ticket.number == 0) return 0;
        return static_cast<std::int64_t>(static_cast<std::uint64_t>(set) << ticket_bits |
                                         ticket.number);
    }
    [[nodiscard]] static DeviceMark unpack(std::int64_t packed) {
        if (packed <= 0) return {};
        const auto bits = static_cast<std::uint64_t>(packed);
        return {static_cast<std::uint32_t>(bits >> ticket_bits),
                {bits & ((std::uint64_t{1} << ticket_bits) - 1)}};
    }
};

[[nodiscard]] inline tl::unexpected<Failure> unknown_handle() {
    return invalid("the handle is unknown, or was released");
}

}  // namespace mpi_bridge
