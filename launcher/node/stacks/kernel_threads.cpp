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

visit::KernelThread thread_of(pid_t process, pid_t thread, const mpi_bridge::ProcessStat& stat) {
    visit::KernelThread out{.id = thread,
                            .name = base::printable_line(stat.name),
                            .state = std::string(1, stat.state),
                            .where = line_of(process, thread, "wchan"),
                            .call = {}};
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
