// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/schema/faults.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace batchai::job {

Diagnostic make_diagnostic(Fault fault, Position position, std::string message, std::string hint) {
    const std::string_view code = kind_of(fault).code;
    const Severity severity = code.front() == 'W' ? Severity::warning : Severity::error;
    return {.severity = severity,
            .code = std::string(code),
            .position = position,
            .message = std::move(message),
            .hint = std::move(hint)};
}

void Faults::add(Fault fault, Position position, std::string message, std::string hint) {
    constexpr std::size_t most = 100;
    if (diagnostics_.size() >= most) {
        ++not_listed_;
        return;
    }
    diagnostics_.push_back(make_diagnostic(fault, position, std::move(message), std::move(hint)));
}

bool Faults::any_at(Position position) const {
    return std::any_of(diagnostics_.begin(), diagnostics_.end(),
                       [&](const Diagnostic& d) { return d.position == position; });
}

std::vector<Diagnostic> Faults::take_sorted() {
    std::vector<Diagnostic> sorted = std::exchange(diagnostics_, {});
    std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
        return std::tie(a.position.line, a.position.column) <
               std::tie(b.position.line, b.position.column);
    });
    if (not_listed_ > 0) {
        sorted.push_back(make_diagnostic(Fault::too_many_faults, sorted.back().position,
                                         fmt::format("{} more faults are not listed", not_listed_),
                                         "correct the first ones and try again"));
        not_listed_ = 0;
    }
    return sorted;
}

}  // namespace batchai::job
