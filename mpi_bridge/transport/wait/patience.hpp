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

// Whether the ranks on this host outnumber the processors that they may use.
[[nodiscard]] bool ranks_exceed_processors(int local_size);

// How often a waiting thread polls before it blocks. A peer that is running answers soon, and
// blocking costs a wake-up of tens of microseconds on an idle processor, so polling is right where
// this process has the processor to itself. Where other processes need the processor (ranks of
// another job, or ranks that a launcher has put on the same processor), the answer may depend on
// them, and polling delays it. In that case the thread yields before each poll and polls a few
// times only. Linux 6.18 yields to jobs of other scheduling groups as well. Older schedulers may
// not, so a few polls must not cost more than blocking. Whether others need the processor is learnt
// from the time that this thread has waited for it. One thread at a time may use this object.
class LookingHabit {
  public:
    static constexpr int few = 20;  // some microseconds if the processor is free
    // Some hundred microseconds over TCP, whose polls are system calls, and some thirty over UCX.
    static constexpr int many = 200;

    // crowded: more ranks on this host than processors they may use.
    explicit LookingHabit(bool crowded) : crowded_(crowded) {}

    // The number of polls for a wait that begins.
    [[nodiscard]] int looks() {
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
enum class Manner {
    // It yields the processor some times first: right for steps of a collective, whose ranks are
    // all under way, so that the processor soon comes back.
    yields,
    // It blocks at once, and is woken as soon as there is something: right for what depends on the
    // program of another rank. A thread that yields comes back only after all others that could
    // run.
    blocks,
};

// One wait.
class Patience {
  public:
    enum class Next { look, block };

    explicit Patience(LookingHabit& habit, Manner manner = Manner::yields)
        : habit_(habit), looks_(habit.looks()) {
        if (manner == Manner::blocks && looks_ == LookingHabit::few) looks_ = 0;
    }

    // To be called after each poll that found nothing.
    [[nodiscard]] Next next() {
        if (looked_ == looks_) return Next::block;
        ++looked_;
        return Next::look;
    }

    // Whether the caller should call sched_yield() before each poll.
    [[nodiscard]] bool gives_way() const { return looks_ == LookingHabit::few; }

    // To be called when the wait has ended.
    void end() {
        if (looked_ > LookingHabit::few) habit_.learn();
    }

  private:
    LookingHabit& habit_;
    int looks_;
    int looked_ = 0;
};

}  // namespace mpi_bridge
