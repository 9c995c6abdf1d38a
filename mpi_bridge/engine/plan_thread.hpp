// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>
#include <vector>

#include "engine/collective_execution.hpp"
#include "engine/device_work.hpp"
#include "engine/process_set_state.hpp"

namespace mpi_bridge {

// Runs the buckets of a process set's plan in the plan's order, each as soon as this rank has
// submitted all of it, without any round of negotiation. The thread that finds the head ready and
// no bucket running runs it: a thread in wait(), or the plan's own.
//
// A planned bucket costs little besides its own collective. A bucket of at most
// HostExecution::small_bucket_bytes carries one more element, by which all members learn whether
// all of them have the bucket. A larger bucket, one of several fused groups, or one on device
// memory is preceded by an allreduce of one word. Once a process set has been added, each fused
// group on device memory is preceded by another one (DeviceExecutor).
//
// These functions require the lock of the state, except where noted.
class PlanThread {
  public:
    using Lock = ProcessSetState::Lock;

    PlanThread(ProcessSetState& state, DeviceWork& devices);
    ~PlanThread();  // the thread must end first
    PlanThread(const PlanThread&) = delete;
    PlanThread& operator=(const PlanThread&) = delete;

    // Call this without the lock, before the first plan is adopted.
    [[nodiscard]] Done open();

    // Runs the head on the calling thread, and gives up the lock meanwhile.
    void run_head(Lock& lock);
    // Called by a thread that has run the head and leaves; it makes another thread run the next
    // bucket.
    void hand_over();
    // The head is ready. This wakes the plan's thread unless the head will be run soon anyway,
    // because the submitting thread will wait for it or the plan's thread is about to look.
    void head_is_ready(const OwnRequest& submitted);
    // Another thread waits for the head, which is ready, and cannot run it.
    void run_soon();
    // There is a new plan.
    void begin();
    // Wakes the thread, so that it sees that it should end or that the plan goes on.
    void wake() { work_.notify_all(); }
    [[nodiscard]] bool ended() const { return ended_ && !state_.member.plan.busy; }
    // Frees everything once it has ended and there can be no more work. Called without the lock.
    void let_go();

  private:
    void work();
    [[nodiscard]] Outcome<bool> run_bucket(const Bucket& bucket, bool whole);
    [[nodiscard]] Outcome<bool> all_whole(std::string_view label, bool whole);

    // Buckets up to this length are small: waking a thread costs more than running one.
    static constexpr std::size_t small_bucket_bytes = 64UL * 1024;

    ProcessSetState& state_;
    std::condition_variable work_;  // the plan's thread waits for it
    CollectiveExecution execution_;
    bool polls_ = false;           // the plan's thread will soon look by itself
    bool urgent_ = false;          // see run_soon()
    std::uint64_t polled_at_ = 0;  // the position at its latest look
    bool ended_ = true;

    // Used by the thread that runs the head; kept to reuse their memory.
    Member::Head head_;
    std::vector<OwnRequest*> requests_;  // null where this rank takes part without a tensor

    std::thread thread_;
};

}  // namespace mpi_bridge
