// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/negotiation/requests/request_table.hpp"
#include "gpu/device_group.hpp"

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

}  // namespace mpi_bridge
