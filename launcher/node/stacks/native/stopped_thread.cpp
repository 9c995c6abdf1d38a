// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/native/stopped_thread.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

namespace batchai::node {

namespace {

constexpr std::chrono::milliseconds longest_stop{100};
constexpr std::chrono::microseconds between_looks{200};

// A stop that was asked for has this number in the upper half of its status; see ptrace(2).
constexpr int stopped_as_asked = PTRACE_EVENT_STOP;

std::string why_not() {
    if (errno == EPERM)
        return "the kernel does not allow it (kernel.yama.ptrace_scope, or a debugger is there)";
    return std::generic_category().message(errno);
}

}  // namespace

base::Result<StoppedThread> StoppedThread::stop(pid_t thread) {
    if (ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) return base::fail(why_not());
    if (ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return base::fail(why_not());
    const auto deadline = std::chrono::steady_clock::now() + longest_stop;
    while (true) {
        int status = 0;
        const pid_t found = waitpid(thread, &status, __WALL | WNOHANG);
        if (found == thread && WIFSTOPPED(status)) {
            // A signal that comes at this moment is passed on.
            const bool as_asked = status >> 16 == stopped_as_asked;
            return StoppedThread(thread, as_asked ? 0 : WSTOPSIG(status));
        }
        if (found == thread || (found < 0 && errno != EINTR)) return base::fail("it has ended");
        // Nobody can let go of a thread that does not stop but by ending.
        if (std::chrono::steady_clock::now() >= deadline) return base::fail("it does not stop");
        std::this_thread::sleep_for(between_looks);
    }
}

StoppedThread::~StoppedThread() {
    if (thread_ > 0) ptrace(PTRACE_DETACH, thread_, nullptr, signal_);
}

StoppedThread::StoppedThread(StoppedThread&& other) noexcept
    : thread_(std::exchange(other.thread_, 0)), signal_(other.signal_) {}

base::Result<ThreadRegisters> StoppedThread::registers() const {
    user_regs_struct kernels{};
    iovec place{.iov_base = &kernels, .iov_len = sizeof kernels};
    if (ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &place) != 0) return base::fail(why_not());
    if (place.iov_len != sizeof kernels) return base::fail("it is no program of 64 bits");
    ThreadRegisters out;
#if defined(__aarch64__)
    std::memcpy(out.values.data(), kernels.regs, sizeof kernels.regs);
    out.values[31] = kernels.sp;
    out.program_counter = kernels.pc;
#else
    out.values = {kernels.rax, kernels.rdx, kernels.rcx, kernels.rbx, kernels.rsi, kernels.rdi,
                  kernels.rbp, kernels.rsp, kernels.r8,  kernels.r9,  kernels.r10, kernels.r11,
                  kernels.r12, kernels.r13, kernels.r14, kernels.r15, kernels.rip};
    out.program_counter = kernels.rip;
#endif
    return out;
}

}  // namespace batchai::node
