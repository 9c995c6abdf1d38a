// SPDX-License-Identifier: Apache-2.0
#include "gpu/staged/staging.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace mpi_bridge {

Done Staging::await(WorkQueue& queue, WorkQueue::Mark mark, const char* step) const {
    // Copying a chunk of some megabytes takes some hundred microseconds.
    constexpr int looks_without_pause = 50;
    constexpr std::chrono::microseconds pause{20};
    const Deadline deadline = Deadline::in(options_.patience);
    for (int looks = 0;; ++looks) {
        const auto reached = TRY(queue.reached(mark));
        if (reached) return {};
        if (abandoned_) return fail(MPIB_ERROR_INTERNAL, options_.name + ": abandoned");
        if (deadline.passed()) {
            return fail(MPIB_ERROR_TIMEOUT,
                        fmt::format("{}: {} did not come to an end within {} s; a kernel on the "
                                    "device may be stuck",
                                    options_.name, step, options_.patience.count()));
        }
        if (looks >= looks_without_pause) std::this_thread::sleep_for(pause);
    }
}

Done Staging::prepare_slots() {
    while (slots_.size() < slot_count) {
        auto memory = TRY(inbound_.host_memory(options_.chunk_bytes));
        slots_.push_back({std::move(memory), {}, {}});
    }
    return {};
}

Done Staging::fill(Slot& slot, const std::byte* from, std::size_t bytes) {
    TRY(await(inbound_, slot.used, "copying a chunk to the device"));
    if (from == nullptr) return {};
    TRY(outbound_.copy(slot.memory.get(), from, bytes));
    slot.filled = TRY(outbound_.mark());
    return {};
}

Done Staging::hold_inbound() {
    const auto mark = TRY(outbound_.mark());
    return outbound_.hold(inbound_.stream(), mark);
}

Done Staging::run(const std::byte* from, std::byte* to, std::size_t bytes, const OnHost& on_host) {
    const std::size_t chunk = options_.chunk_bytes;
    const std::size_t chunks = bytes / chunk + (bytes % chunk != 0 ? 1 : 0);
    const auto length = [&](std::size_t i) { return std::min(chunk, bytes - i * chunk); };
    // One slot is being emptied while the others are filled in advance.
    constexpr std::size_t ahead = slot_count - 1;
    std::size_t filled = 0;
    // Where something is copied out, the host waits for it before anything is copied back.
    if (from == nullptr) TRY(hold_inbound());
    for (std::size_t i = 0; i < chunks; ++i) {
        for (; filled < chunks && filled < i + ahead; ++filled) {
            const std::byte* next = from == nullptr ? nullptr : from + filled * chunk;
            TRY(fill(slots_[filled % slot_count], next, length(filled)));
        }
        Slot& slot = slots_[i % slot_count];
        if (from != nullptr) {
            TRY(await(outbound_, slot.filled, "copying a chunk to the host"));
        }
        TRY(on_host({slot.memory.get(), length(i)}));
        if (to == nullptr) continue;
        TRY(inbound_.copy(to + i * chunk, slot.memory.get(), length(i)));
        slot.used = TRY(inbound_.mark());
    }
    return {};
}

Done Staging::run_whole(const Whole& whole, const OnHost& on_host) {
    TRY(await(inbound_, whole_used_, "copying the last result to the device"));
    const auto memory = TRY(whole_.take(
        whole.bytes, [this](std::size_t bytes) { return inbound_.host_memory(bytes); }));
    if (whole.out != 0) {
        TRY(outbound_.copy(memory + whole.out_at, whole.from, whole.out));
        const auto mark = TRY(outbound_.mark());
        TRY(await(outbound_, mark, "copying to the host"));
    } else if (whole.in != 0) {
        TRY(hold_inbound());
    }
    TRY(on_host({memory, whole.bytes}));
    if (whole.in == 0) return {};
    TRY(inbound_.copy(whole.to, memory + whole.in_at, whole.in));
    whole_used_ = TRY(inbound_.mark());
    return {};
}

}  // namespace mpi_bridge
