// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/memory_files.hpp"

#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/text.hpp"
#include "node/stacks/proc_text.hpp"
#include "node/usage/processes.hpp"

namespace batchai::node {

namespace {

constexpr std::size_t longest_head = 100;

// The number that the process has for itself, which is the last if it is in a namespace of its own.
std::string own_number(std::string_view status) {
    const std::string_view numbers = value_of_line(status, "NSpid");
    return std::string(base::trim(numbers.substr(numbers.find_last_of(" \t") + 1)));
}

// Opens what the process has open under this link of /proc/PID/fd.
std::vector<MemoryFile> open_by_link(pid_t process, const std::string& wanted, int flags) {
    std::vector<MemoryFile> found;
    const base::FileDescriptor directory(
        open(fmt::format("/proc/{}/fd", process).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return found;
    for (const std::string& entry : base::names_in(directory.get())) {
        std::string link(wanted.size() + 1, '\0');
        // Opening something else could have side effects, so the link is read first.
        const ssize_t length = readlinkat(directory.get(), entry.c_str(), link.data(), link.size());
        if (length != static_cast<ssize_t>(wanted.size()) || !link.starts_with(wanted)) continue;
        const auto number = base::number_in<int>(entry);
        base::FileDescriptor file(openat(directory.get(), entry.c_str(), flags | O_CLOEXEC));
        if (number && file.valid()) found.push_back({*number, std::move(file)});
    }
    return found;
}

}  // namespace

std::vector<MemoryFile> memory_files(pid_t process, std::string_view name, int flags) {
    return open_by_link(process, fmt::format("/memfd:{} (deleted)", name), flags);
}

std::vector<MemoryFile> ends_of_pipe(pid_t process, std::uint64_t inode, int flags) {
    return open_by_link(process, fmt::format("pipe:[{}]", inode), flags);
}

std::optional<HookHead> hook_head(const MemoryFile& file, std::string_view name, pid_t process) {
    std::string text(longest_head, '\0');
    const ssize_t count = pread(file.file.get(), text.data(), text.size(), 0);
    text.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    const std::size_t newline = text.find('\n');
    if (newline == std::string::npos) return std::nullopt;
    const auto words = base::split(std::string_view(text).substr(0, newline), ' ');
    if (words.size() != 5 || words[0] != name || words[1] != "1" ||
        words[2] != own_number(proc_text(process, "status")))
        return std::nullopt;
    const auto first = base::number_in<std::uint64_t>(words[3]);
    const auto second = base::number_in<std::uint64_t>(words[4]);
    if (!first || !second) return std::nullopt;
    return HookHead{.numbers = {*first, *second}, .bytes = newline + 1};
}

}  // namespace batchai::node
