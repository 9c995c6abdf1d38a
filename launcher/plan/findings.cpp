// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/findings.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace batchai::plan {

void Findings::add(Finding finding, std::string_view pointer, std::string message,
                   std::string hint) {
    const std::string_view code = finding_kinds.at(static_cast<std::size_t>(finding)).code;
    const auto severity = code.front() == 'W' ? job::Severity::warning : job::Severity::error;
    const job::Position position = pointer.empty() ? job::Position{} : positions_.find(pointer);
    diagnostics_.push_back(
        {severity, std::string(code), position, std::move(message), std::move(hint)});
}

std::vector<job::Diagnostic> Findings::take() {
    std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                     [](const job::Diagnostic& a, const job::Diagnostic& b) {
                         return std::tie(a.position.line, a.position.column) <
                                std::tie(b.position.line, b.position.column);
                     });
    return std::exchange(diagnostics_, {});
}

}  // namespace batchai::plan
