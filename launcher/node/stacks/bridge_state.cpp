// SPDX-License-Identifier: GPL-2.0-or-later
#include "node/stacks/bridge_state.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "node/stacks/memory_files.hpp"

namespace batchai::node {

namespace {

using mpi_bridge::VisibleLayout;

// "PROCESS_SET KIND SUBMITTED "NAME"" of mpi_bridge/core/visible_layout.hpp.
std::optional<visit::OpenOperation> operation_in(std::string_view line) {
    std::array<std::string_view, 3> words;
    for (std::string_view& word : words) {
        const std::size_t blank = line.find(' ');
        if (blank == std::string_view::npos) return std::nullopt;
        word = line.substr(0, blank);
        line.remove_prefix(blank + 1);
    }
    const auto set = base::number_in<int>(words[0]);
    const auto submitted = base::number_in<std::int64_t>(words[2]);
    if (!set || !submitted) return std::nullopt;
    const std::chrono::steady_clock::time_point time{
        std::chrono::steady_clock::duration(*submitted)};
    const auto age =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - time);
    return visit::OpenOperation{.process_set = *set,
                                .kind = base::printable(words[1]),
                                .name = base::printable(line),
                                .seconds = std::max<std::int64_t>(age.count(), 0)};
}

std::optional<BridgeLook> look_into(const MemoryFile& file, pid_t process) {
    // Copied, because the process may cut the file short.
    const auto copy = std::make_unique<VisibleLayout>();
    const auto bytes = static_cast<ssize_t>(sizeof(VisibleLayout));
    if (pread(file.file.get(), static_cast<void*>(copy.get()), sizeof(VisibleLayout), 0) != bytes ||
        copy->format != VisibleLayout::this_format || copy->process != process)
        return std::nullopt;
    std::uint32_t version = 0;
    constexpr auto place = static_cast<off_t>(offsetof(VisibleLayout, operations.version));
    if (pread(file.file.get(), &version, sizeof version, place) != sizeof version)
        return std::nullopt;
    BridgeLook look{.rank = copy->rank,
                    .waited = static_cast<double>(copy->waited.sum()) * 1e-9,
                    .meetings = static_cast<std::int64_t>(copy->waited.ends()),
                    .waits = mpi_bridge::waits_in(copy->waits)};
    const auto text = mpi_bridge::operations_in(copy->operations, version);
    for (const std::string_view line : base::split(text.value_or(std::string_view()), '\n')) {
        if (auto operation = operation_in(line)) look.operations.push_back(std::move(*operation));
    }
    return look;
}

}  // namespace

std::optional<BridgeLook> look_at_bridge(pid_t process) {
    for (const MemoryFile& file :
         memory_files(process, VisibleLayout::file_name, O_RDONLY | O_NONBLOCK)) {
        if (auto look = look_into(file, process)) return look;
    }
    return std::nullopt;
}

visit::BridgeState lasting(const BridgeLook& first, const BridgeLook& second) {
    visit::BridgeState state{.rank = second.rank, .waits_for = {}, .operations = second.operations};
    for (const auto& wait : second.waits) {
        const bool before = std::any_of(
            first.waits.begin(), first.waits.end(),
            [&](const auto& one) { return one.place == wait.place && one.serial == wait.serial; });
        if (before) state.waits_for.push_back(wait.rank);
    }
    std::sort(state.waits_for.begin(), state.waits_for.end());
    state.waits_for.erase(std::unique(state.waits_for.begin(), state.waits_for.end()),
                          state.waits_for.end());
    return state;
}

}  // namespace batchai::node
