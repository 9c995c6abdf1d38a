// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/memory_files.hpp"

#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "base/beneath.hpp"
#include "base/text.hpp"

namespace batchai::node {

std::vector<MemoryFile> memory_files(pid_t process, std::string_view name, int flags) {
    std::vector<MemoryFile> found;
    const base::FileDescriptor directory(
        open(fmt::format("/proc/{}/fd", process).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory.valid()) return found;
    const std::string wanted = fmt::format("/memfd:{} (deleted)", name);
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

}  // namespace batchai::node
