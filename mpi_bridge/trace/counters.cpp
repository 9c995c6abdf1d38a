// SPDX-License-Identifier: Apache-2.0
#include "trace/counters.hpp"

#include <algorithm>
#include <cstring>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

void add(std::atomic<std::uint64_t>& number, std::uint64_t value) noexcept {
    number.fetch_add(value, relaxed);
}

void add(std::atomic<std::uint64_t>& number, std::chrono::nanoseconds time) noexcept {
    // The clock is steady, but the difference of two threads' time stamps may be negative.
    add(number, static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0)));
}

// For numbers that no other thread changes.
void add_alone(std::atomic<std::uint64_t>& number, std::uint64_t value) noexcept {
    number.store(number.load(relaxed) + value, relaxed);
}

std::uint64_t sum(const std::atomic<std::uint64_t>& one,
                  const std::atomic<std::uint64_t>& other) noexcept {
    return one.load(relaxed) + other.load(relaxed);
}

}  // namespace

Counters::OfKind* Counters::of(Kinds& kinds, mpib_kind kind) noexcept {
    const auto index = static_cast<std::size_t>(kind);
    return index < kinds.size() ? &kinds[index] : nullptr;
}

void Counters::add_operation(mpib_kind kind, std::uint64_t bytes, bool ok) noexcept {
    OfKind* const numbers = of(kinds_, kind);
    if (numbers == nullptr) return;
    if (!ok) {
        add(numbers->failures, 1);
        return;
    }
    add(numbers->operations, 1);
    add(numbers->bytes, bytes);
}

void Counters::add_collective(mpib_kind kind, std::uint64_t bus_bytes,
                              Nanoseconds transfer) noexcept {
    OfKind* const numbers = of(kinds_, kind);
    if (numbers == nullptr) return;
    add(numbers->collectives, 1);
    add(numbers->bus_bytes, bus_bytes);
    add(numbers->transfer_nanoseconds, transfer);
}

void Counters::add_call(mpib_kind kind, std::uint64_t bytes, std::uint64_t bus_bytes,
                        Nanoseconds transfer) noexcept {
    OfKind* const numbers = of(calls_, kind);
    if (numbers == nullptr) return;
    add_alone(numbers->operations, 1);
    add_alone(numbers->bytes, bytes);
    add_alone(numbers->collectives, 1);
    add_alone(numbers->bus_bytes, bus_bytes);
    const auto time = std::max<std::int64_t>(transfer.count(), 0);
    if (time != 0) add_alone(numbers->transfer_nanoseconds, static_cast<std::uint64_t>(time));
}

void Counters::add_waited(TimePoint begin, TimePoint end) noexcept {
    WaitedTable* const shown = shown_.load(relaxed);
    if (shown == nullptr) return;
    thread_local TimePoint waited_until;
    add(shown->engine_ends, 1);
    begin = std::max(begin, waited_until);
    if (end <= begin) return;
    waited_until = end;
    add(shown->engine, end - begin);
}

void Counters::add_waited_in_call(Nanoseconds time) noexcept {
    WaitedTable* const shown = shown_.load(relaxed);
    if (shown == nullptr) return;
    add_alone(shown->call_ends, 1);
    if (time.count() > 0) add_alone(shown->calls, static_cast<std::uint64_t>(time.count()));
}

void Counters::add_negotiation(Nanoseconds time) noexcept {
    add(engine_.negotiation_rounds, 1);
    add(engine_.negotiation_nanoseconds, time);
}

void Counters::add_queued(Nanoseconds time) noexcept {
    add(engine_.queued_nanoseconds, time);
}
void Counters::add_pack(Nanoseconds time) noexcept {
    add(engine_.pack_nanoseconds, time);
}
void Counters::add_unpack(Nanoseconds time) noexcept {
    add(engine_.unpack_nanoseconds, time);
}
void Counters::add_planned_bucket() noexcept {
    add(engine_.planned_buckets, 1);
}
void Counters::add_inline_bucket() noexcept {
    add(engine_.inline_buckets, 1);
}
void Counters::add_plan_made() noexcept {
    add(engine_.plans_made, 1);
}
void Counters::add_plan_broken() noexcept {
    add(engine_.plans_broken, 1);
}

Done Counters::read(mpib_counters& into) const {
    const std::size_t room = into.struct_bytes;
    if (room < sizeof into.struct_bytes) {
        return fail(MPIB_ERROR_INVALID_ARGUMENT,
                    fmt::format("mpib_read_counters: struct_bytes is {}; set it to "
                                "sizeof(mpib_counters)",
                                room));
    }
    mpib_counters now{};
    now.struct_bytes = room;
    for (std::size_t kind = 0; kind < kinds_.size(); ++kind) {
        const OfKind& one = kinds_[kind];
        const OfKind& other = calls_[kind];
        now.operations[kind] = sum(one.operations, other.operations);
        now.failures[kind] = sum(one.failures, other.failures);
        now.bytes[kind] = sum(one.bytes, other.bytes);
        now.collectives[kind] = sum(one.collectives, other.collectives);
        now.bus_bytes[kind] = sum(one.bus_bytes, other.bus_bytes);
        now.transfer_nanoseconds[kind] = sum(one.transfer_nanoseconds, other.transfer_nanoseconds);
    }
    now.queued_nanoseconds = engine_.queued_nanoseconds.load(relaxed);
    now.negotiation_nanoseconds = engine_.negotiation_nanoseconds.load(relaxed);
    now.pack_nanoseconds = engine_.pack_nanoseconds.load(relaxed);
    now.unpack_nanoseconds = engine_.unpack_nanoseconds.load(relaxed);
    now.negotiation_rounds = engine_.negotiation_rounds.load(relaxed);
    now.planned_buckets = engine_.planned_buckets.load(relaxed);
    now.plans_made = engine_.plans_made.load(relaxed);
    now.plans_broken = engine_.plans_broken.load(relaxed);
    now.inline_buckets = engine_.inline_buckets.load(relaxed);

    auto* const memory = static_cast<std::byte*>(static_cast<void*>(&into));
    std::memcpy(memory, &now, std::min(room, sizeof now));
    if (room > sizeof now) std::memset(memory + sizeof now, 0, room - sizeof now);
    return {};
}

void Counters::reset() noexcept {
    for (Kinds* kinds : {&kinds_, &calls_}) {
        for (OfKind& numbers : *kinds) {
            for (auto* number :
                 {&numbers.operations, &numbers.failures, &numbers.bytes, &numbers.collectives,
                  &numbers.bus_bytes, &numbers.transfer_nanoseconds}) {
                number->store(0, relaxed);
            }
        }
    }
    for (auto* number :
         {&engine_.queued_nanoseconds, &engine_.negotiation_nanoseconds, &engine_.pack_nanoseconds,
          &engine_.unpack_nanoseconds, &engine_.negotiation_rounds, &engine_.planned_buckets,
          &engine_.plans_made, &engine_.plans_broken, &engine_.inline_buckets}) {
        number->store(0, relaxed);
    }
}

}  // namespace mpi_bridge
