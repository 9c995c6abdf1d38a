// SPDX-License-Identifier: Apache-2.0
#include "core/environment_overlay.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>

#include <unistd.h>

namespace mpi_bridge {
namespace {

// All lists that were ever put in place, each with the strings it added. They are never freed,
// because a thread may still be reading one at the end of the process, and they are reachable from
// here so that leak checkers do not report them.
std::deque<std::vector<char*>>& lists() {
    static auto* const lists = new std::deque<std::vector<char*>>();
    return *lists;
}

}  // namespace

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
    auto& list = lists().emplace_back(before_, before_ + count);
    std::copy_if(added.begin(), added.end(), std::back_inserter(list),
                 [](const char* variable) { return variable != nullptr; });
    list.push_back(nullptr);
    during_ = list.data();
    std::atomic_ref(environ).store(during_, std::memory_order_release);
}

EnvironmentOverlay::~EnvironmentOverlay() {
    if (during_ == nullptr) return;
    char** expected = during_;
    std::atomic_ref(environ).compare_exchange_strong(expected, before_);
}

}  // namespace mpi_bridge
