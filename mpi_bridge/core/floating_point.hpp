// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mpi_bridge {

// Gives the calling thread, for as long as it lives, the floating-point mode that the C library
// starts a process with: round to nearest, subnormal numbers are kept, no exception traps. All
// ranks must calculate in one mode, or their results differ in bits, and the mode of a thread is
// whatever the program or one of its libraries has set (torch.set_flush_denormal(), -ffast-math,
// fesetround()), on this rank alone perhaps.
//
// Threads that the library starts have one from their beginning (start_quiet_thread). Threads of
// the program need one wherever they may get to a reduction.
class DefaultFloatingPoint {
  public:
    DefaultFloatingPoint() noexcept : found_(mode()) {
        if (controls(found_) != default_controls) set_mode(default_controls);
    }
    ~DefaultFloatingPoint() {
        if (controls(found_) != default_controls) set_mode(found_);
    }
    DefaultFloatingPoint(const DefaultFloatingPoint&) = delete;
    DefaultFloatingPoint& operator=(const DefaultFloatingPoint&) = delete;

  private:
#if defined(__x86_64__)
    // MXCSR: all exceptions are masked, and the six lowest bits are flags of past exceptions (Intel
    // SDM volume 1, 10.2.3).
    using Mode = std::uint32_t;
    static constexpr Mode default_controls = 0x1f80;
    static constexpr Mode controls(Mode mode) {
        return mode & ~Mode{0x3f};
    }
    static Mode mode() noexcept {
        return __builtin_ia32_stmxcsr();
    }
    static void set_mode(Mode mode) noexcept {
        __builtin_ia32_ldmxcsr(mode);
    }
#elif defined(__aarch64__)
    // FPCR has no flags (Arm ARM, FPCR, Floating-point Control Register).
    using Mode = std::uint64_t;
    static constexpr Mode default_controls = 0;
    static constexpr Mode controls(Mode mode) {
        return mode;
    }
    static Mode mode() noexcept {
        Mode mode = 0;
        asm volatile("mrs %0, fpcr" : "=r"(mode));
        return mode;
    }
    static void set_mode(Mode mode) noexcept {
        asm volatile("msr fpcr, %0" : : "r"(mode));
    }
#else
#error "the floating-point mode of this processor is not supported yet"
#endif

    const Mode found_;
};

}  // namespace mpi_bridge
