// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/deadline.hpp"

namespace mpi_bridge {

// How long this thread has been ready to run without a processor, in all its life; nullopt where
// the kernel does not tell (/proc/thread-self/schedstat; see sched-stats.rst of Linux). Costs a
// microsecond.
[[nodiscard]] std::optional<std::chrono::nanoseconds> time_without_processor();

// Whether so many ranks on this host are more than the processors that they may use.
[[nodiscard]] bool ranks_exceed_processors(int local_size);

// How long waiters look before they block. A peer that runs answers soon, and blocking costs a
// wake-up of tens of microseconds on an idle processor, so looking is right where the processor is
// ours alone. Where others want it, ranks of another job or ranks that a launcher put on the same
// processor, the answer may depend on them, and looking keeps away what is waited for: there, give
// way before each look, and look a few times only. Linux 6.18 gives way to jobs of other scheduling
// groups as well; older schedulers may not, so that a few looks must not cost more than blocking.
// Whether others want the processor is learnt from the time that this thread waited for it. One
// thread at a time.
class LookingHabit {
  public:
    static constexpr int few = 20;    // some microseconds if nobody takes the processor
    static constexpr int many = 200;  // some hundred microseconds

    // crowded: more ranks on this host than processors they may use.
    explicit LookingHabit(bool crowded) : crowded_(crowded) {}

    // The number of looks for a wait that begins.
    [[nodiscard]] int looks() {
        if (crowded_) return few;
        if (short_waits_left_ == 0) return many;
        --short_waits_left_;
        return few;
    }

    // A wait has ended that took many looks, or all of them and more.
    void learn();

  private:
    static constexpr int waits_per_trial = 1000;
    static constexpr int waits_per_lesson = 4;

    bool crowded_;
    int short_waits_left_ = 0;  // before many looks are tried again
    int waits_left_ = 0;        // before the kernel is asked again
    std::optional<std::chrono::nanoseconds> before_;
};

// One wait.
class Patience {
  public:
    enum class Next { look, block };

    explicit Patience(LookingHabit& habit) : habit_(habit), looks_(habit.looks()) {}

    // To be called after each look that found nothing.
    [[nodiscard]] Next next() {
        if (looked_ == looks_) return Next::block;
        ++looked_;
        return Next::look;
    }

    // Whether sched_yield() belongs before each look.
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
