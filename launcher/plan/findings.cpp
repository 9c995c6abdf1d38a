// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/findings.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace batchai::plan {

namespace {

std::string_view code_of(Finding finding) {
    switch (finding) {
        case Finding::toolkit_not_supported:
            return "E100";
        case Finding::too_few_processes:
            return "E102";
        case Finding::bad_path:
            return "E103";
        case Finding::nothing_mounted:
            return "E104";
        case Finding::unknown_vm_size:
            return "E105";
        case Finding::too_many_nodes:
            return "E106";
        case Finding::unknown_file_server:
            return "E107";
        case Finding::unknown_mount:
            return "E108";
        case Finding::bad_storage_name:
            return "E109";
        case Finding::no_storage_directory:
            return "E110";
        case Finding::no_command:
            return "E111";
        case Finding::secret_reference:
            return "E112";
        case Finding::bad_elastic_setting:
            return "E113";
        case Finding::bad_image:
            return "E114";
        case Finding::too_long:
            return "E115";
        case Finding::bad_mount_option:
            return "E120";
        case Finding::no_credentials:
            return "E121";
        case Finding::undefined_variable:
            return "W200";
        case Finding::output_not_mounted:
            return "W201";
    }
    return {};
}

}  // namespace

void Findings::add(Finding finding, std::string_view pointer, std::string message,
                   std::string hint) {
    const std::string_view code = code_of(finding);
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
