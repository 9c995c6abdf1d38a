// SPDX-License-Identifier: Apache-2.0
#include "core/open_operations.hpp"

#include <algorithm>
#include <utility>

namespace mpi_bridge {

void OpenOperations::show(int process_set, std::string lines) {
    const std::lock_guard lock(mutex_);
    if (lines.empty())
        shown_.erase(process_set);
    else
        shown_[process_set] = std::move(lines);
    std::string text;
    for (const auto& [set, of_set] : shown_)
        text += of_set;
    if (text.size() > table_.text.size()) text.resize(text.rfind('\n', table_.text.size() - 1) + 1);
    const std::uint32_t version = table_.version.load(std::memory_order_relaxed);
    table_.version.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    std::copy(text.begin(), text.end(), table_.text.begin());
    table_.bytes = static_cast<std::uint32_t>(text.size());
    table_.version.store(version + 2, std::memory_order_release);
}

}  // namespace mpi_bridge
