// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::plan {

// What the planner finds wrong. The codes are stable: never renumber, never reuse.
enum class Finding {
    toolkit_not_supported,  // E100
    too_few_processes,      // E102
    bad_path,               // E103
    nothing_mounted,        // E104
    unknown_vm_size,        // E105
    too_many_nodes,         // E106
    unknown_file_server,    // E107
    unknown_mount,          // E108
    bad_storage_name,       // E109
    no_storage_directory,   // E110
    no_command,             // E111
    secret_reference,       // E112
    bad_elastic_setting,    // E113
    bad_image,              // E114
    too_long,               // E115
    bad_mount_option,       // E120
    no_credentials,         // E121
    undefined_variable,     // W200
    output_not_mounted,     // W201
};

// Collects all faults of one job file; they come out in the order of their places.
class Findings {
  public:
    explicit Findings(const job::PositionTable& positions) : positions_(positions) {}

    // `pointer` is the JSON pointer of the value to blame; empty: none, the place is 0:0.
    void add(Finding finding, std::string_view pointer, std::string message, std::string hint = {});

    void add(job::Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }

    [[nodiscard]] std::vector<job::Diagnostic> take();

  private:
    const job::PositionTable& positions_;
    std::vector<job::Diagnostic> diagnostics_;
};

}  // namespace batchai::plan
