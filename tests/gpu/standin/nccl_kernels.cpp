// SPDX-License-Identifier: Apache-2.0
//
// What NCCL does on the device: work of a stream that waits there for the other ranks.
#include <algorithm>
#include <cstring>

#include "memory.hpp"
#include "nccl_arithmetic.hpp"
#include "nccl_communicator.hpp"

namespace mpi_bridge::nccl {

using namespace standin;

namespace {

constexpr int no_deed = -1;

bool is_message(const Operation& operation) {
    return operation.kind == Kind::send || operation.kind == Kind::recv;
}

const std::byte* reach_in(const void* memory, std::size_t bytes, const Device& device) {
    return Memory::get().reach(reinterpret_cast<std::uint64_t>(memory), bytes, device.ordinal);
}

std::byte* reach_out(void* memory, std::size_t bytes, const Device& device) {
    return Memory::get().reach(reinterpret_cast<std::uint64_t>(memory), bytes, device.ordinal);
}

}  // namespace

void CommunicatorRecord::run_kernel(const std::vector<Operation>& operations) {
    // What follows an aborted kernel does not run; the other ranks must not take it for a call.
    if (stopped_ || !device.take_slot(stopped_)) return;
    try {
        std::vector<Operation> to_exchange;
        for (const Operation& each : operations) {
            if (is_message(each)) {
                to_exchange.push_back(each);
            } else if (size == 1) {
                alone(each);
            } else {
                collective(each);
            }
        }
        if (!to_exchange.empty()) messages(to_exchange);
    } catch (const Stopped&) {
        // The memory keeps what it has; nobody may look at it any more.
    } catch (...) {
        device.free_slot();
        throw;
    }
    device.free_slot();
}

void CommunicatorRecord::alone(const Operation& operation) {
    const std::size_t bytes = operation.count * bytes_of_type(operation.type);
    const auto* from = reach_in(operation.send, bytes, device);
    auto* to = reach_out(operation.recv, bytes, device);
    std::memmove(to, from, bytes);
    if (operation.factor) scale(to, operation.count, operation.type, operation.factor->data());
}

// Piece by piece: each rank shows its elements in its window, all meet, each takes what it needs,
// and all meet again.
void CommunicatorRecord::collective(const Operation& operation) {
    const auto ranks = static_cast<std::size_t>(size);
    const auto own = static_cast<std::size_t>(rank);
    const std::size_t element = bytes_of_type(operation.type);
    const bool scatters = operation.kind == Kind::reduce_scatter;
    const bool gathers = operation.kind == Kind::all_gather;
    const std::size_t total = operation.count * element;
    const bool root = rank == operation.peer;
    const bool shows = operation.kind != Kind::broadcast || root;
    const bool takes = operation.kind != Kind::reduce || root;
    const auto* const in =
        shows ? reach_in(operation.send, scatters ? ranks * total : total, device) : nullptr;
    auto* const out =
        takes ? reach_out(operation.recv, gathers ? ranks * total : total, device) : nullptr;
    Deed deed{static_cast<int>(operation.kind), operation.type, operation.op, operation.peer,
              operation.count};
    if (Plan::get().setting("apart") == device.ordinal)
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const std::size_t share = window_bytes / (scatters ? ranks : 1) / 16 * 16;
    for (std::size_t at = 0; at < total; at += share) {
        const std::size_t length = std::min(share, total - at);
        // A reduce-scatter shows one piece for each rank.
        for (std::size_t part = 0; shows && part < (scatters ? ranks : 1); ++part) {
            std::byte* const place = segment_->windows[own].data() + part * share;
            std::memcpy(place, in + part * total + at, length);
            if (operation.factor) {
                scale(place, length / element, operation.type, operation.factor->data());
            }
        }
        meet(deed);
        std::vector<const std::byte*> shown;
        for (std::size_t other = 0; other < ranks; ++other)
            shown.push_back(segment_->windows[other].data() + (scatters ? own * share : 0));
        if (operation.kind == Kind::broadcast) {
            std::memcpy(out + at, shown[static_cast<std::size_t>(operation.peer)], length);
        } else if (gathers) {
            for (std::size_t other = 0; other < ranks; ++other)
                std::memcpy(out + other * total + at, shown[other], length);
        } else if (takes) {
            reduce(out + at, shown, length / element, operation.type, operation.op);
        }
        meet({.kind = no_deed});
    }
    if (takes && total != 0 && Plan::get().setting("spoils") == device.ordinal)
        out[total / 2] ^= std::byte{1};
}

// All messages of a group make progress side by side.
void CommunicatorRecord::messages(const std::vector<Operation>& operations) {
    struct Under {
        const Operation& operation;
        std::size_t left = 0;
        const std::byte* from = nullptr;
        std::byte* to = nullptr;
        Segment::Mail* mail = nullptr;
    };
    std::vector<Under> all;
    for (const Operation& each : operations) {
        const auto own = static_cast<std::size_t>(rank);
        const auto peer = static_cast<std::size_t>(each.peer);
        const std::size_t bytes = each.count * bytes_of_type(each.type);
        if (each.kind == Kind::send) {
            all.push_back({each, bytes, reach_in(each.send, bytes, device), nullptr,
                           &segment_->mail[own][peer]});
        } else {
            all.push_back({each, bytes, nullptr, reach_out(each.recv, bytes, device),
                           &segment_->mail[peer][own]});
        }
    }
    const auto advance = [](Under& one) {
        Segment::Mail& mail = *one.mail;
        const bool full = mail.filled != mail.emptied;
        if (one.left == 0 || full == (one.operation.kind == Kind::send)) return;
        if (one.operation.kind == Kind::send) {
            mail.bytes = std::min(one.left, mail_bytes);
            std::memcpy(mail.data.data(), one.from, mail.bytes);
            one.from += mail.bytes;
            one.left -= mail.bytes;
            ++mail.filled;
        } else {
            if (mail.bytes > one.left) misuse("a peer sends more than this rank receives");
            std::memcpy(one.to, mail.data.data(), mail.bytes);
            one.to += mail.bytes;
            one.left -= mail.bytes;
            ++mail.emptied;
        }
    };
    // Of several messages to one peer, the first goes first.
    await([&] {
        std::vector<const Segment::Mail*> busy;
        for (Under& one : all) {
            const bool sends = one.operation.kind == Kind::send;
            if (one.left == 0) continue;
            const bool waits = std::any_of(all.begin(), all.end(), [&](const Under& before) {
                return &before < &one && before.left != 0 && before.mail == one.mail &&
                       (before.operation.kind == Kind::send) == sends;
            });
            if (!waits) advance(one);
        }
        return std::all_of(all.begin(), all.end(), [](const Under& one) { return one.left == 0; });
    });
}

}  // namespace mpi_bridge::nccl
