// SPDX-License-Identifier: Apache-2.0
#include "core/interruption.hpp"

#include <atomic>
#include <mutex>
#include <string>
#include <utility>

namespace mpi_bridge {
namespace {

constexpr Seconds between_looks{0.5};
constexpr Seconds for_the_collective{1};

struct {
    std::mutex mutex;
    Interruption::Hook hook = nullptr;
    void* context = nullptr;
    std::atomic<bool> is_set{false};  // so that most calls need not take the lock
} program;

thread_local Interruption* latest = nullptr;

}  // namespace

void Interruption::set_hook(Hook hook, void* context) {
    const std::lock_guard lock(program.mutex);
    program.hook = hook;
    program.context = context;
    program.is_set = hook != nullptr;
}

Interruption::Interruption(FailureToken& failure, int own_rank)
    : failure_(failure), own_rank_(own_rank), hook_(nullptr), context_(nullptr), outer_(latest) {
    latest = this;
    if (!program.is_set.load(std::memory_order_relaxed)) return;
    const std::lock_guard lock(program.mutex);
    hook_ = program.hook;
    context_ = program.context;
}

Interruption::~Interruption() {
    latest = outer_;
}

void Interruption::look() {
    if (latest != nullptr && latest->hook_ != nullptr) latest->look_at(Clock::now());
}

Clock::time_point Interruption::next_look() {
    if (latest == nullptr || latest->hook_ == nullptr) return Clock::time_point::max();
    if (!latest->next_) latest->next_ = after(Clock::now(), between_looks);
    return *latest->next_;
}

void Interruption::look_at(Clock::time_point now) {
    if (now < next_look()) return;
    next_ = after(now, between_looks);
    if (!asked_) {
        if (hook_(context_) != 0) asked_ = Clock::now();
        return;
    }
    if (failed_ || now < after(*asked_, for_the_collective)) return;
    failed_ = true;
    (void)failure_.fail(
        {MPIB_ERROR_PEER_LOST, "rank " + std::to_string(own_rank_) +
                                   " left an operation that was under way, because of a signal"});
}

}  // namespace mpi_bridge
