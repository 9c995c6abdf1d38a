// SPDX-License-Identifier: Apache-2.0
#include "core/environment_overlay.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace mpi_bridge {

EnvironmentOverlay::EnvironmentOverlay(
    const std::vector<std::pair<std::string, std::string>>& variables) {
    std::vector<char*> added;
    for (const auto& [name, value] : variables) {
        if (std::getenv(name.c_str()) != nullptr) continue;
        std::string entry = name;
        entry.append("=").append(value);
        added.push_back(::strdup(entry.c_str()));
    }
    if (added.empty()) return;
    before_ = environ;
    std::size_t count = 0;
    while (before_ != nullptr && before_[count] != nullptr)
        ++count;
    // Kept for good, like the strings: a thread may still be reading it at the end.
    during_ = new char*[count + added.size() + 1];
    char** end = during_;
    for (std::size_t at = 0; at < count; ++at)
        *end++ = before_[at];
    for (char* variable : added) {
        if (variable != nullptr) *end++ = variable;
    }
    *end = nullptr;
    std::atomic_ref(environ).store(during_, std::memory_order_release);
}

EnvironmentOverlay::~EnvironmentOverlay() {
    if (during_ == nullptr) return;
    char** expected = during_;
    std::atomic_ref(environ).compare_exchange_strong(expected, before_);
}

}  // namespace mpi_bridge
