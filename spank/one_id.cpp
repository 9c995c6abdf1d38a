// SPDX-License-Identifier: GPL-2.0-or-later
#include "spank/one_id.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace batchai::spank {

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t architecture = AUDIT_ARCH_AARCH64;
#else
#error "the system calls of this architecture are not listed here"
#endif

constexpr std::array answered {
#if defined(__x86_64__)
    SYS_chown, SYS_lchown,
#endif
        SYS_fchown, SYS_fchownat, SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid,
        SYS_setresgid, SYS_setgroups, SYS_setfsuid, SYS_setfsgid
};

constexpr std::uint8_t count = answered.size();
constexpr std::size_t length = 5 + count + 1;

constexpr sock_filter statement(std::uint16_t code, std::uint32_t value) {
    return {code, 0, 0, value};
}

// The program loads the architecture, loads the call's number, and compares it with the list.
constexpr std::array<sock_filter, length> make_program() {
    std::array<sock_filter, length> program{};
    program[0] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch));
    // Programs of another architecture, such as 32-bit ones, get the kernel's own answers.
    program[1] = {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, architecture};
    program[2] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[3] = statement(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    for (std::uint8_t i = 0; i < count; ++i) {
        const auto to_answer = static_cast<std::uint8_t>(count - i);
        program[4U + i] = {BPF_JMP | BPF_JEQ | BPF_K, to_answer, 0,
                           static_cast<std::uint32_t>(answered[i])};
    }
    program[4U + count] = statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    program[5U + count] = statement(BPF_RET | BPF_K, SECCOMP_RET_ERRNO);  // errno 0: success
    return program;
}

}  // namespace

bool answer_id_changes() {
    static constexpr std::array<sock_filter, length> instructions = make_program();
    sock_fprog program{};
    program.len = length;
    program.filter = const_cast<sock_filter*>(instructions.data());
    // no_new_privs is not needed, because the task is root in its own user namespace.
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace batchai::spank
