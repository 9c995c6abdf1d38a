// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/descriptor.hpp"
#include "engine/ledger.hpp"
#include "gpu/device.hpp"
#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What this rank knows of one name: the operation that is in flight under it, if any, and what of
// the last one makes the next one quick.
struct Entry {
    enum class Stage : std::uint8_t {
        free,     // no operation is in flight
        waiting,  // submitted; for other tensors, other ranks, or its turn
        running,  // a thread is in its collective and uses its memory
        done,     // until the handle is released
    };

    std::string name;
    Stage stage = Stage::free;
    std::uint32_t generation = 0;  // of the handle; changes with every release
    Descriptor descriptor;         // of the latest operation

    // The operation in flight, as the caller gave it.
    const std::byte* send = nullptr;
    std::byte* recv = nullptr;
    std::size_t room = 0;              // bytes that recv can hold; see room_of()
    std::int64_t rows = 0;             // length of the first dimension of send
    std::vector<std::int64_t> splits;  // rows to each member; empty: equal parts
    std::size_t bytes = 0;             // of send
    void* stream = nullptr;            // for device memory
    bool waited_for = false;
    Clock::time_point submitted;
    std::uint64_t number = 0;  // counts this rank's submissions
    std::uint64_t after = 0;   // serial number of the latest execution whose end the rank had seen

    // How far the ranks have come to agree on it.
    Ledger::Id id = Ledger::none;
    bool settled = false;    // the ledger's record of `id` is settled and says what we mean
    bool announced = false;  // the others have heard from us what we mean
    bool reported = false;   // the others know that it is submitted here
    bool planned = false;    // it waits in the plan, and the others need not know
    int item = -1;           // of the plan, that has this name in it

    // Its execution.
    std::uint64_t serial = 0;          // of the latest
    std::uint64_t executed_after = 0;  // `after` of the operation executed then
    std::optional<Failure> failure;    // once done
    bool refused = false;              // by all ranks alike, before any data went
    std::vector<std::byte> owned;      // the result where recv was not given
    Memory device_owned;               // likewise, of an operation on device memory
    DeviceNote note;                   // where the stream stood at the submission, if known
    DeviceTicket ticket;               // what to ask the device for; once done
    std::int64_t result_rows = 0;
    std::vector<std::int64_t> received_rows;
    int last_joined = -1;
    // Global ranks that had not submitted it when that was last asked; see stall.hpp.
    std::vector<std::uint64_t> missing;
};

// An operation in flight as the caller names it: which ensemble, which entry, which use of it.
struct Handle {
    static constexpr unsigned entry_bits = 24;
    static constexpr unsigned generation_bits = 24;
    static constexpr unsigned ensemble_bits = 14;

    std::uint32_t ensemble = 0;
    std::uint32_t entry = 0;
    std::uint32_t generation = 0;  // its low bits

    [[nodiscard]] static constexpr std::uint32_t low(std::uint32_t value, unsigned bits) {
        return value & ((std::uint32_t{1} << bits) - 1);
    }

    // Never 0: the entry counts from 1.
    [[nodiscard]] mpib_handle pack() const {
        const auto upper = static_cast<std::uint64_t>(low(generation, generation_bits))
                               << ensemble_bits |
                           ensemble;
        return static_cast<mpib_handle>(upper << entry_bits | (entry + 1));
    }
    // nullopt: not made by pack().
    [[nodiscard]] static std::optional<Handle> unpack(mpib_handle packed) {
        const auto bits = static_cast<std::uint64_t>(packed);
        const auto entry = static_cast<std::uint32_t>(bits & ((1U << entry_bits) - 1));
        if (packed <= 0 || entry == 0) return std::nullopt;
        Handle handle;
        handle.entry = entry - 1;
        handle.ensemble =
            static_cast<std::uint32_t>(bits >> entry_bits) & ((1U << ensemble_bits) - 1);
        handle.generation = static_cast<std::uint32_t>(bits >> (entry_bits + ensemble_bits));
        return handle;
    }
};

}  // namespace mpi_bridge
