// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/array_indexes.hpp"

#include <algorithm>
#include <cstddef>

#include "base/text.hpp"

namespace batchai::slurm {

namespace {

constexpr int largest_index = 4'000'000;

struct Range {
    int first = 0;
    int last = 0;
    int step = 1;
};

std::optional<Range> range_of(std::string_view text) {
    Range range;
    const std::size_t colon = text.find(':');
    if (colon != std::string_view::npos) {
        const auto step = base::number_in<int>(text.substr(colon + 1));
        if (!step || *step < 1 || *step > largest_index) return std::nullopt;
        range.step = *step;
        text = text.substr(0, colon);
    }
    const std::size_t dash = text.find('-');
    const auto first = base::number_in<int>(text.substr(0, dash));
    const auto last =
        dash == std::string_view::npos ? first : base::number_in<int>(text.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last > largest_index)
        return std::nullopt;
    range.first = *first;
    range.last = *last;
    return range;
}

}  // namespace

std::optional<std::vector<int>> expand_array_indexes(std::string_view text) {
    text = text.substr(0, text.find('%'));
    if (text.starts_with('[')) text.remove_prefix(1);
    if (text.ends_with(']')) text.remove_suffix(1);
    std::vector<int> out;
    for (const std::string_view part : base::split(text, ',')) {
        const auto range = range_of(part);
        if (!range) return std::nullopt;
        // Many overlapping ranges must not fill the memory.
        if (out.size() > 2UL * largest_index) return std::nullopt;
        for (int index = range->first; index <= range->last; index += range->step)
            out.push_back(index);
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

std::optional<int> tasks_at_once(std::string_view text) {
    const std::size_t percent = text.find('%');
    if (percent == std::string_view::npos) return std::nullopt;
    const auto limit = base::number_in<int>(text.substr(percent + 1));
    // Slurm takes 0 for none.
    return limit && *limit > 0 ? limit : std::nullopt;
}

void TaskCounts::add(ExecutionState state) {
    switch (state) {
        case ExecutionState::queued:
            ++queued;
            break;
        case ExecutionState::running:
            ++running;
            break;
        case ExecutionState::terminating:
            ++terminating;
            break;
        case ExecutionState::succeeded:
            ++succeeded;
            break;
        case ExecutionState::failed:
            ++failed;
            break;
    }
}

ExecutionState combined_state(const TaskCounts& counts) {
    if (counts.terminating > 0) return ExecutionState::terminating;
    const bool begun = counts.running + counts.succeeded + counts.failed > 0;
    if (counts.queued > 0) return begun ? ExecutionState::running : ExecutionState::queued;
    if (counts.running > 0) return ExecutionState::running;
    return counts.failed > 0 || counts.total() == 0 ? ExecutionState::failed
                                                    : ExecutionState::succeeded;
}

}  // namespace batchai::slurm
