// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/stopped_thread.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mpi_bridge/core/process_stat.hpp"
#include "node/stacks/native/permission.hpp"

namespace batchai::node {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds longest_stop{100};
constexpr std::chrono::microseconds between_looks{200};
constexpr std::size_t most_stack = 512UL << 10U;
// Below the stack pointer, code of a function that calls nobody may have data.
constexpr std::uint64_t red_zone = 256;

// A stop that was asked for has this number in the upper half of its status; see ptrace(2).
constexpr int stopped_as_asked = PTRACE_EVENT_STOP;

// Those that have been asked to stop, and have not yet.
std::vector<pid_t>& late_threads() {
    static std::vector<pid_t> threads;
    return threads;
}

// Lets a stopped thread go on, with the signal that it was about to get.
void let_go(pid_t thread, int signal) {
    if (ptrace(PTRACE_DETACH, thread, nullptr, static_cast<long>(signal)) == 0) return;
    // It has been killed meanwhile, and its parent hears of that only when nobody traces it.
    int status = 0;
    static_cast<void>(waitpid(thread, &status, __WALL | WNOHANG));
}

// Returns the signal with which a thread that has stopped must be let go.
int signal_of_stop(int status) {
    return status >> 16 == stopped_as_asked ? 0 : WSTOPSIG(status);
}

void let_go_of_late_threads() {
    std::erase_if(late_threads(), [](pid_t thread) {
        int status = 0;
        const pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
        if (found == 0) return false;
        if (found == thread && WIFSTOPPED(status)) let_go(thread, signal_of_stop(status));
        return true;
    });
}

// Only a thread that runs, or sleeps so that it can be woken, stops at once.
base::Result<void> expect_to_stop(pid_t thread) {
    const auto text = mpi_bridge::read_process_stat(std::to_string(thread));
    const auto stat = text ? mpi_bridge::parse_process_stat(*text) : std::nullopt;
    if (!stat || stat->state == 'Z' || stat->state == 'X') return base::fail("it has ended");
    if (stat->state != 'R' && stat->state != 'S') return base::fail("it cannot be stopped now");
    return {};
}

base::Result<void> ask_to_stop(pid_t thread) {
    TRY(expect_to_stop(thread));
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0)
        return base::fail(why_not_allowed(thread));
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0)
        return base::fail(why_not_allowed(thread));
    return {};
}

// Returns once the thread is stopped as asked.
base::Result<void> stop(pid_t thread) {
    TRY(ask_to_stop(thread));
    const auto deadline = Clock::now() + longest_stop;
    while (true) {
        let_go_of_late_threads();
        int status = 0;
        const pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
        if (found == thread && WIFSTOPPED(status)) {
            const int signal = signal_of_stop(status);
            if (signal == 0) return {};
            // It goes on with its signal at once: if this process were killed now, it would be
            // lost.
            let_go(thread, signal);
            if (Clock::now() >= deadline) return base::fail("it gets signals all the time");
            TRY(ask_to_stop(thread));
            continue;
        }
        if (found == thread || (found < 0 && errno != EINTR)) return base::fail("it has ended");
        if (Clock::now() >= deadline) {
            late_threads().push_back(thread);
            return base::fail("it does not stop");
        }
        std::this_thread::sleep_for(between_looks);
    }
}

// Returns the bits of a return address that its signature may be in; none where nothing is signed.
std::uint64_t signature_bits_of(pid_t thread) {
#if defined(__aarch64__)
    // Of addresses of data, and of instructions.
    std::array<std::uint64_t, 2> masks{};
    iovec place{.iov_base = masks.data(), .iov_len = sizeof masks};
    if (ptrace(PTRACE_GETREGSET, thread, NT_ARM_PAC_MASK, &place) == 0 &&
        place.iov_len == sizeof masks)
        return masks[1];
#else
    static_cast<void>(thread);
#endif
    return 0;
}

base::Result<ThreadRegisters> registers_of(pid_t thread) {
    user_regs_struct kernels{};
    iovec place{.iov_base = &kernels, .iov_len = sizeof kernels};
    if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &place) != 0)
        return base::fail(why_not_allowed(thread));
    if (place.iov_len != sizeof kernels) return base::fail("it is no program of 64 bits");
    ThreadRegisters out;
#if defined(__aarch64__)
    std::memcpy(out.values.data(), kernels.regs, sizeof kernels.regs);
    out.values[31] = kernels.sp;
    out.program_counter = kernels.pc;
    out.stack_pointer = kernels.sp;
#else
    out.values = {kernels.rax, kernels.rdx, kernels.rcx, kernels.rbx, kernels.rsi, kernels.rdi,
                  kernels.rbp, kernels.rsp, kernels.r8,  kernels.r9,  kernels.r10, kernels.r11,
                  kernels.r12, kernels.r13, kernels.r14, kernels.r15, kernels.rip};
    out.program_counter = kernels.rip;
    out.stack_pointer = kernels.rsp;
#endif
    return out;
}

// The stack ends where its mapping does.
std::vector<std::byte> bytes_at(int memory, std::uint64_t begin) {
    std::vector<std::byte> bytes(most_stack);
    std::size_t count = 0;
    while (count < bytes.size()) {
        const ssize_t more = pread(memory, bytes.data() + count, bytes.size() - count,
                                   static_cast<off_t>(begin + count));
        if (more <= 0) break;
        count += static_cast<std::size_t>(more);
    }
    bytes.resize(count);
    return bytes;
}

}  // namespace

void wait_for_late_threads() {
    const auto deadline = Clock::now() + 3 * longest_stop;
    while (!late_threads().empty() && Clock::now() < deadline) {
        let_go_of_late_threads();
        std::this_thread::sleep_for(between_looks);
    }
}

base::Result<ThreadCopy> copy_thread(pid_t thread, int memory) {
    TRY(stop(thread));
    ThreadCopy copy;
    auto registers = registers_of(thread);
    if (registers) {
        copy.registers = *registers;
        copy.signature_bits = signature_bits_of(thread);
        copy.stack_begin = registers->stack_pointer - std::min(registers->stack_pointer, red_zone);
        copy.stack = bytes_at(memory, copy.stack_begin);
    }
    let_go(thread, 0);
    if (!registers) return tl::unexpected(std::move(registers.error()));
    return copy;
}

}  // namespace batchai::node
