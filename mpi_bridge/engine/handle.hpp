// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/failure.hpp"
#include "engine/negotiation/requests/request_table.hpp"
#include "gpu/device_group.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// An operation in flight as the caller identifies it: the process set, the request, and which use
// of the request.
struct Handle {
    static constexpr unsigned index_bits = 24;
    static constexpr unsigned generation_bits = 24;
    static constexpr unsigned set_bits = 14;
    static_assert(RequestTable::most < std::size_t{1} << index_bits);
    // A request whose generation comes to this is not used again, because its earlier handles would
    // be valid once more.
    static constexpr std::uint32_t generations = std::uint32_t{1} << generation_bits;

    std::uint32_t set = 0;         // number of the process set's engine, which is never reused
    std::uint32_t index = 0;       // of the request
    std::uint32_t generation = 0;  // below `generations`

    // Never returns 0, because requests are counted from 1.
    [[nodiscard]] mpib_handle pack() const {
        const auto upper = static_cast<std::uint64_t>(generation) << set_bits | set;
        return static_cast<mpib_handle>(upper << index_bits | (index + 1));
    }
    // Returns nullopt for a number that pack() did not make.
    [[nodiscard]] static std::optional<Handle> unpack(mpib_handle packed) {
        const auto bits = static_cast<std::uint64_t>(packed);
        const auto counted = static_cast<std::uint32_t>(bits & ((1U << index_bits) - 1));
        if (packed <= 0 || counted == 0) return std::nullopt;
        Handle handle;
        handle.index = counted - 1;
        handle.set = static_cast<std::uint32_t>(bits >> index_bits) & ((1U << set_bits) - 1);
        handle.generation = static_cast<std::uint32_t>(bits >> (index_bits + set_bits));
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
