// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include <ucontext.h>

namespace mpi_bridge_scale {

// A function with a stack of its own, which can be left in the middle and be continued later. All
// fibers run on the thread that resumes them, one at a time. Below the stack is a page that no one
// may touch, so that an overflow is a fault and not another fiber's data.
class Fiber {
  public:
    // Throws std::bad_alloc when there is no memory for a stack. The body must not throw.
    explicit Fiber(std::function<void()> body);
    ~Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;

    // Runs the body until it suspends or ends. Not from within a fiber.
    void resume();
    // Leaves the running fiber.
    static void suspend();

    [[nodiscard]] bool finished() const { return finished_; }

  private:
    static void enter();
    void switch_in();
    void switch_out(bool for_good);

    std::function<void()> body_;
    void* memory_ = nullptr;  // guard page and stack
    ucontext_t inside_{};
    ucontext_t outside_{};
    bool finished_ = false;
    // What AddressSanitizer wants to know about stacks; unused without it.
    [[maybe_unused]] const void* outer_stack_ = nullptr;
    [[maybe_unused]] std::size_t outer_stack_bytes_ = 0;
};

}  // namespace mpi_bridge_scale
