// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/deadline.hpp"
#include "core/failure_token.hpp"

namespace mpi_bridge {

// Lets a program react to signals while one of its threads waits in this library.
//
// An interpreter such as Python runs its signal handlers later than the kernel, on a certain
// thread, and cannot do so while that thread waits here. So the program may set a hook, which a
// waiting thread calls twice a second. The hook may ask for the end of the wait, because a handler
// has raised an exception.
//
// An object of this class is one call of the library in which the thread may wait. The thread can
// leave most waits. It cannot leave a collective that it takes part in. That gets a second to end,
// and then the failure token ends it on all ranks.
class Interruption {
  public:
    // Returns another value than 0 if the wait should end.
    using Hook = int (*)(void* context);
    // Null: no hook. Any thread may call this; the hook is used by calls that begin later.
    static void set_hook(Hook hook, void* context);

    Interruption(FailureToken& failure, int own_rank);
    ~Interruption();
    Interruption(const Interruption&) = delete;
    Interruption& operator=(const Interruption&) = delete;

    // Whether the hook has asked for the end of this wait.
    [[nodiscard]] bool asked() const { return asked_.has_value(); }

    // What every wait does now and then, at least some times a second, and without holding a lock.
    // It applies to the latest call of this thread, and does nothing if there is none, or no hook.
    static void look();
    // When look() has something to do, at the latest.
    [[nodiscard]] static Clock::time_point next_look();

  private:
    void look_at(Clock::time_point now);

    FailureToken& failure_;
    int own_rank_;
    Hook hook_;
    void* context_;
    Interruption* outer_ = nullptr;          // a handler may call the library, too
    std::optional<Clock::time_point> next_;  // set by the first wait of this call
    std::optional<Clock::time_point> asked_;
    bool failed_ = false;
};

}  // namespace mpi_bridge
