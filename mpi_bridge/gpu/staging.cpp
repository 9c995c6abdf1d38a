// SPDX-License-Identifier: Apache-2.0
#include "gpu/staging.hpp"

#include <algorithm>
#include <thread>

#include <fmt/format.h>

namespace mpi_bridge {

Done Staging::await(WorkQueue& queue, WorkQueue::Mark mark, const char* step) const {
    // A chunk of some megabytes takes some hundred microseconds.
    constexpr int looks_without_pause = 50;
    constexpr std::chrono::microseconds pause{20};
    const Deadline deadline = Deadline::in(options_.patience);
    for (int looks = 0;; ++looks) {
        auto reached = queue.reached(mark);
        if (!reached) return pass_on(std::move(reached));
        if (*reached) return {};
        if (stopped_) return fail(MPIB_ERROR_INTERNAL, options_.name + ": aborted");
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
        auto memory = inbound_.host_memory(options_.chunk_bytes);
        if (!memory) return pass_on(std::move(memory));
        slots_.push_back({std::move(*memory), {}, {}});
    }
    return {};
}

Done Staging::fill(Slot& slot, const std::byte* from, std::size_t bytes) {
    if (auto done = await(inbound_, slot.used, "copying a chunk to the device"); !done) return done;
    if (from == nullptr) return {};
    if (auto done = outbound_.copy(slot.memory.get(), from, bytes); !done) return done;
    auto mark = outbound_.mark();
    if (!mark) return pass_on(std::move(mark));
    slot.filled = *mark;
    return {};
}

Done Staging::run(const std::byte* from, std::byte* to, std::size_t bytes, const OnHost& on_host) {
    if (auto done = prepare_slots(); !done) return done;
    const std::size_t chunk = options_.chunk_bytes;
    const std::size_t chunks = bytes / chunk + (bytes % chunk != 0 ? 1 : 0);
    const auto length = [&](std::size_t i) { return std::min(chunk, bytes - i * chunk); };
    // One slot is being emptied while the others are filled ahead.
    constexpr std::size_t ahead = slot_count - 1;
    std::size_t filled = 0;
    for (std::size_t i = 0; i < chunks; ++i) {
        for (; filled < chunks && filled < i + ahead; ++filled) {
            const std::byte* next = from == nullptr ? nullptr : from + filled * chunk;
            auto done = fill(slots_[filled % slot_count], next, length(filled));
            if (!done) return done;
        }
        Slot& slot = slots_[i % slot_count];
        if (from != nullptr) {
            auto done = await(outbound_, slot.filled, "copying a chunk to the host");
            if (!done) return done;
        }
        if (auto done = on_host({slot.memory.get(), length(i)}); !done) return done;
        if (to == nullptr) continue;
        auto done = inbound_.copy(to + i * chunk, slot.memory.get(), length(i));
        if (!done) return done;
        auto mark = inbound_.mark();
        if (!mark) return pass_on(std::move(mark));
        slot.used = *mark;
    }
    return {};
}

Done Staging::run_whole(const Whole& whole, const OnHost& on_host) {
    auto done = await(inbound_, whole_used_, "copying the last result to the device");
    if (!done) return done;
    auto memory = whole_.take(inbound_, whole.bytes);
    if (!memory) return pass_on(std::move(memory));
    if (whole.out != 0) {
        done = outbound_.copy(*memory + whole.out_at, whole.from, whole.out);
        if (!done) return done;
        auto mark = outbound_.mark();
        if (!mark) return pass_on(std::move(mark));
        done = await(outbound_, *mark, "copying to the host");
        if (!done) return done;
    }
    if (done = on_host({*memory, whole.bytes}); !done) return done;
    if (whole.in == 0) return {};
    done = inbound_.copy(whole.to, *memory + whole.in_at, whole.in);
    if (!done) return done;
    auto mark = inbound_.mark();
    if (!mark) return pass_on(std::move(mark));
    whole_used_ = *mark;
    return {};
}

}  // namespace mpi_bridge
