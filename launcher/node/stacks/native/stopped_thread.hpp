// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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
    std::uint64_t stack_pointer = 0;
};

// What a thread needs to have its stack walked while it runs on.
struct ThreadCopy {
    ThreadRegisters registers;
    // Where aarch64 signs a return address, which is not an address then; see without_signature().
    std::uint64_t signature_bits = 0;
    std::uint64_t stack_begin = 0;
    std::vector<std::byte> stack;  // from that address on
};

// Copies the registers and the stack of a thread of another process, which is stopped meanwhile,
// for some microseconds. It gets no signal for that, and one that it gets from elsewhere is not
// lost. `memory` is the process's /proc/PID/mem. Fails if the kernel does not allow it, or if the
// thread does not stop at once. Such a thread is let go as soon as it stops, at the latest when
// this process ends.
[[nodiscard]] base::Result<ThreadCopy> copy_thread(pid_t thread, int memory);

// Waits some tenths of a second for those that have been asked to stop and have not yet, and lets
// them go on.
void wait_for_late_threads();

}  // namespace batchai::node
