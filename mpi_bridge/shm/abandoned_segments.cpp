// SPDX-License-Identifier: Apache-2.0
#include "shm/abandoned_segments.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/process_stat.hpp"

namespace mpi_bridge {
namespace {

constexpr std::string_view directory = "/dev/shm";
constexpr std::string_view prefix = "/mpi_bridge.";

struct Creator {
    std::uint64_t user = 0;
    std::uint64_t process = 0;
    std::uint64_t start = 0;
    std::uint64_t pid_namespace = 0;
};

std::uint64_t own_pid_namespace() {
    struct stat status {};
    return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

// In clock ticks after boot; 0 if it is not known.
std::uint64_t start_of(const std::string& process) {
    const auto text = read_process_stat(process);
    const auto stat = text ? parse_process_stat(*text) : std::nullopt;
    return stat ? stat->start : 0;
}

// Whether /proc numbers processes in the same way as this process's PID namespace.
bool proc_is_ours() {
    std::array<char, 32> target{};
    const ssize_t length = ::readlink("/proc/self", target.data(), target.size());
    return length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) ==
                             std::to_string(::getpid());
}

std::optional<Creator> parse(std::string_view name) {
    if (!name.starts_with(prefix)) return std::nullopt;
    name.remove_prefix(prefix.size());
    Creator creator;
    const std::array<std::pair<std::uint64_t*, int>, 4> fields{{{&creator.user, 10},
                                                                {&creator.process, 10},
                                                                {&creator.start, 16},
                                                                {&creator.pid_namespace, 16}}};
    for (const auto& [value, base] : fields) {
        const auto dot = name.find('.');
        if (dot == std::string_view::npos) return std::nullopt;
        const auto* const end = name.data() + dot;
        const auto parsed = std::from_chars(name.data(), end, *value, base);
        if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
        name.remove_prefix(dot + 1);
    }
    return creator;
}

}  // namespace

std::string name_for_segment(const Nonce& nonce) {
    // The name has at most 62 characters, and a ticket has room for 63.
    return fmt::format("{}{}.{}.{:x}.{:x}.{}", prefix, ::getuid(), ::getpid(), start_of("self"),
                       own_pid_namespace(), to_hex(nonce).substr(0, 12));
}

bool is_abandoned(std::string_view name) {
    const auto creator = parse(name);
    if (!creator || creator->user != ::getuid() || creator->pid_namespace == 0 ||
        creator->pid_namespace != own_pid_namespace()) {
        return false;
    }
    const auto process = static_cast<pid_t>(creator->process);
    // 0 and negative numbers mean groups of processes.
    if (process <= 0) return false;
    if (::kill(process, 0) != 0 && errno == ESRCH) return true;
    // There is a process of that number, but it may be another one.
    if (creator->start == 0 || !proc_is_ours()) return false;
    const auto start = start_of(std::to_string(process));
    return start != 0 && start != creator->start;
}

void remove_abandoned_segments() {
    std::error_code ignored;
    std::filesystem::directory_iterator entries(directory, ignored);
    while (!ignored && entries != std::filesystem::directory_iterator()) {
        const auto name = "/" + entries->path().filename().string();
        if (is_abandoned(name)) ::shm_unlink(name.c_str());
        entries.increment(ignored);
    }
}

}  // namespace mpi_bridge
