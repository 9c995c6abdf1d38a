// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/deadline.hpp"

namespace mpi_bridge {

// How long this thread has been ready to run without a processor since it was started; nullopt
// where the kernel does not report it (/proc/thread-self/schedstat; see sched-stats.rst of Linux).
// Costs a microsecond.
[[nodiscard]] std::optional<std::chrono::nanoseconds> time_without_processor();

// Whether the ranks on this host seem to share processors, as far as this one can tell alone. If a
// launcher has bound it to some of the host's processors, as Slurm does (TaskPlugin=task/affinity),
// the others probably have theirs.
[[nodiscard]] bool may_be_crowded(int local_size);

// How often a waiting thread polls before it blocks. A peer that is running answers soon, and
// blocking costs a wake-up of tens of microseconds on an idle processor, so polling is right where
// this process has the processor to itself. Where other processes need the processor (ranks of
// another job, or ranks that a launcher has put on the same processor), the answer may depend on
// them, and polling delays it. In that case the thread yields before each poll and polls a few
// times only. Linux 6.18 yields to jobs of other scheduling groups as well. Older schedulers may
// not, so a few polls must not cost more than blocking. Whether others need the processor is learnt
// from the time that this thread has waited for it. One thread at a time may use this object.
class SpinPolicy {
  public:
    static constexpr int few = 20;  // some microseconds if the processor is free
    // Some hundred microseconds over TCP, whose polls are system calls, and some thirty over UCX.
    static constexpr int many = 200;

    // crowded: ranks of this host share processors.
    explicit SpinPolicy(bool crowded) : crowded_(crowded) {}

    void set_crowded(bool crowded) { crowded_ = crowded; }

    // The number of polls for a wait that begins.
    [[nodiscard]] int polls() {
        if (crowded_) return few;
        if (short_waits_left_ == 0) return many;
        --short_waits_left_;
        return few;
    }

    // Called when a wait has ended that took more than a few polls.
    void learn();

  private:
    static constexpr int waits_per_trial = 1000;
    static constexpr int waits_per_lesson = 4;

    bool crowded_;
    int short_waits_left_ = 0;  // before many polls are tried again
    int waits_left_ = 0;        // before the kernel is asked again
    std::optional<std::chrono::nanoseconds> before_;
};

// What a waiting thread does where others need the processor.
enum class WaitMode {
    // It yields the processor some times first: right for steps of a collective, whose ranks are
    // all under way, so that the processor soon comes back.
    yields,
    // It blocks at once, and is woken as soon as there is something: right for what depends on the
    // program of another rank. A thread that yields comes back only after all others that could
    // run.
    blocks,
};

// One wait.
class SpinWait {
  public:
    enum class Next { poll, block };

    explicit SpinWait(SpinPolicy& policy, WaitMode mode = WaitMode::yields)
        : policy_(policy), polls_(policy.polls()) {
        if (mode == WaitMode::blocks && polls_ == SpinPolicy::few) polls_ = 0;
    }

    // To be called after each poll that found nothing.
    [[nodiscard]] Next next() {
        if (polled_ == polls_) return Next::block;
        ++polled_;
        return Next::poll;
    }

    // Whether the caller should call sched_yield() before each poll.
    [[nodiscard]] bool gives_way() const { return polls_ == SpinPolicy::few; }

    // To be called when the wait has ended.
    void end() {
        if (polled_ > SpinPolicy::few) policy_.learn();
    }

  private:
    SpinPolicy& policy_;
    int polls_;
    int polled_ = 0;
};

}  // namespace mpi_bridge
