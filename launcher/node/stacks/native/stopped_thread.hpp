// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <sys/types.h>

#include "base/error.hpp"

namespace batchai::node {

// The registers of a thread in DWARF's order, as its ABI for the machine has it.
#if defined(__aarch64__)
inline constexpr std::size_t dwarf_registers = 32;
#else
inline constexpr std::size_t dwarf_registers = 17;
#endif
struct ThreadRegisters {
    std::array<std::uint64_t, dwarf_registers> values{};
    std::uint64_t program_counter = 0;
};

// A thread of another process that is stopped for a moment, so that its stack can be read. It gets
// no signal for that. If this process ends meanwhile, the thread goes on. Move-only.
class StoppedThread {
  public:
    // Fails if the kernel does not allow it, or if the thread does not stop at once, as in
    // uninterruptible sleep.
    [[nodiscard]] static base::Result<StoppedThread> stop(pid_t thread);
    ~StoppedThread();
    StoppedThread(StoppedThread&& other) noexcept;
    StoppedThread(const StoppedThread&) = delete;
    StoppedThread& operator=(const StoppedThread&) = delete;
    StoppedThread& operator=(StoppedThread&&) = delete;

    [[nodiscard]] base::Result<ThreadRegisters> registers() const;

  private:
    StoppedThread(pid_t thread, int signal) : thread_(thread), signal_(signal) {}

    pid_t thread_;
    int signal_;  // that it was about to get; 0: none
};

}  // namespace batchai::node
