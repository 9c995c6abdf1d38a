// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/kernel_threads.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/syscall.h>

#include "base/beneath.hpp"
#include "base/file.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "mpi_bridge/core/process_stat.hpp"
#include "node/stacks/proc_text.hpp"

namespace batchai::node {

namespace {

// Calls that may wait. The first argument is a descriptor, except where there is none.
constexpr auto calls = std::to_array<std::pair<long, std::string_view>>({
    {SYS_read, "read"},           {SYS_write, "write"},     {SYS_pread64, "pread"},
    {SYS_pwrite64, "pwrite"},     {SYS_readv, "readv"},     {SYS_writev, "writev"},
    {SYS_recvfrom, "recvfrom"},   {SYS_sendto, "sendto"},   {SYS_recvmsg, "recvmsg"},
    {SYS_sendmsg, "sendmsg"},     {SYS_connect, "connect"}, {SYS_accept, "accept"},
    {SYS_accept4, "accept4"},     {SYS_fsync, "fsync"},     {SYS_fdatasync, "fdatasync"},
    {SYS_flock, "flock"},         {SYS_fcntl, "fcntl"},     {SYS_ioctl, "ioctl"},
    {SYS_getdents64, "getdents"}, {SYS_close, "close"},     {SYS_epoll_pwait, "epoll_wait"},
});
constexpr auto calls_without_file = std::to_array<std::pair<long, std::string_view>>({
    {SYS_wait4, "wait"},
    {SYS_waitid, "wait"},
});

std::string line_of(pid_t process, pid_t thread, std::string_view name) {
    return std::string(base::trim(proc_text(process, fmt::format("task/{}/{}", thread, name))));
}

// The CPU on which the thread has last run: field 39 of its line, where the name ends with ")".
std::optional<std::size_t> cpu_in(std::string_view stat) {
    const std::size_t name = stat.rfind(')');
    if (name == std::string_view::npos || name + 2 >= stat.size()) return std::nullopt;
    constexpr std::size_t field = 39;
    constexpr std::size_t first = 3;
    const auto words = base::split(stat.substr(name + 2), ' ');
    if (words.size() <= field - first) return std::nullopt;
    return base::number_in<std::size_t>(words[field - first]);
}

// Returns when a thread has last run, in seconds by the clock of its CPU. The kernel tells that
// only if it was built with CONFIG_SCHED_DEBUG, as those of distributions are.
std::optional<std::int64_t> last_ran(std::string_view sched) {
    for (const std::string_view line : base::split(sched, '\n')) {
        if (!line.starts_with("se.exec_start")) continue;
        // "se.exec_start      :      66780329.660628", in milliseconds
        const std::string_view number = base::trim(line.substr(line.find(':') + 1));
        const auto milliseconds = base::number_in<std::int64_t>(number.substr(0, number.find('.')));
        return milliseconds ? std::optional(*milliseconds / 1000) : std::nullopt;
    }
    return std::nullopt;
}

// In some kernels the time of interrupts does not count, so the clocks of CPUs may differ by hours.
// This thread therefore asks for its own time on the CPU of the other one.
std::optional<int> seconds_asleep(pid_t process, pid_t thread) {
    const auto then = last_ran(line_of(process, thread, "sched"));
    const auto cpu = cpu_in(line_of(process, thread, "stat"));
    cpu_set_t before;
    cpu_set_t there;
    CPU_ZERO(&there);
    if (!then || !cpu || *cpu >= CPU_SETSIZE) return std::nullopt;
    CPU_SET(*cpu, &there);
    if (sched_getaffinity(0, sizeof before, &before) != 0 ||
        sched_setaffinity(0, sizeof there, &there) != 0)
        return std::nullopt;
    const auto now = last_ran(base::read_file("/proc/thread-self/sched").value_or(""));
    static_cast<void>(sched_setaffinity(0, sizeof before, &before));
    if (!now) return std::nullopt;
    return static_cast<int>(std::max<std::int64_t>(*now - *then, 0));
}

visit::KernelThread thread_of(pid_t process, pid_t thread, const mpi_bridge::ProcessStat& stat) {
    visit::KernelThread out{.id = thread,
                            .name = base::printable_line(stat.name),
                            .state = std::string(1, stat.state),
                            .where = line_of(process, thread, "wchan"),
                            .call = {},
                            .asleep = {}};
    if (stat.state == 'D') out.asleep = seconds_asleep(process, thread);
    if (out.where == "0") out.where.clear();
    if (const auto call = kernel_call_in(line_of(process, thread, "syscall"))) {
        std::error_code error;
        const auto file = std::filesystem::read_symlink(
            fmt::format("/proc/{}/fd/{}", process, call->descriptor), error);
        out.call = error ? std::string(call->name)
                         : fmt::format("{}({})", call->name, base::printable_line(file.string()));
    }
    return out;
}

}  // namespace

std::optional<KernelCall> kernel_call_in(std::string_view text) {
    const auto words = base::split(text, ' ');
    if (words.size() < 2 || !words[1].starts_with("0x")) return std::nullopt;
    const auto number = base::number_in<long>(words[0]);
    const auto descriptor = base::number_in<std::uint64_t>(words[1].substr(2), 16);
    if (!number || !descriptor) return std::nullopt;
    for (const auto& [candidate, name] : calls_without_file) {
        if (candidate == *number) return KernelCall{.name = name, .descriptor = -1};
    }
    for (const auto& [candidate, name] : calls) {
        if (candidate == *number && *descriptor <= INT32_MAX)
            return KernelCall{.name = name, .descriptor = static_cast<int>(*descriptor)};
    }
    return std::nullopt;
}

std::vector<pid_t> threads_of(pid_t process) {
    std::vector<pid_t> threads;
    const base::FileDescriptor tasks(
        open(fmt::format("/proc/{}/task", process).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!tasks.valid()) return threads;
    for (const std::string& name : base::names_in(tasks.get())) {
        if (const auto thread = base::number_in<pid_t>(name)) threads.push_back(*thread);
    }
    std::sort(threads.begin(), threads.end());
    return threads;
}

std::string name_of_thread(pid_t process, pid_t thread) {
    return base::printable_line(line_of(process, thread, "comm"));
}

std::vector<visit::KernelThread> kernel_threads(pid_t process) {
    std::vector<visit::KernelThread> threads;
    for (const pid_t thread : threads_of(process)) {
        const auto stat = mpi_bridge::parse_process_stat(line_of(process, thread, "stat"));
        if (stat && (thread == process || stat->state == 'D'))
            threads.push_back(thread_of(process, thread, *stat));
    }
    return threads;
}

}  // namespace batchai::node
