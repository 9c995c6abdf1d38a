// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "job/parse.hpp"
#include "job/syntax/diagnostic.hpp"

namespace batchai::plan {

// The faults that the planner can find.
enum class Finding : std::uint8_t {
    toolkit_not_supported,
    too_few_processes,
    bad_path,
    nothing_mounted,
    unknown_vm_size,
    too_many_nodes,
    unknown_file_server,
    unknown_mount,
    bad_storage_name,
    no_storage_directory,
    no_command,
    secret_reference,
    bad_elastic_setting,
    bad_image,
    too_long,
    bad_tensorflow_config,
    bad_mount_option,
    no_credentials,
    undefined_variable,
    output_not_mounted,
    shared_gpus,
    count_,
};

struct FindingKind {
    std::string_view code;  // stable: never renumber, never reuse
    std::string_view title;
};

// In the order of the enumerators of Finding.
inline constexpr std::array<FindingKind, static_cast<std::size_t>(Finding::count_)> finding_kinds{{
    {"E100", "A toolkit is not supported in this form"},
    {"E102", "There are fewer processes than nodes"},
    {"E103", "A path is not absolute, too long or has \"..\""},
    {"E104", "Nothing is mounted at the log directory"},
    {"E105", "This site does not have the cluster's VM size"},
    {"E106", "The cluster has fewer nodes than the job asks for"},
    {"E107", "A file server is not known to this site"},
    {"E108", "A mount command is not one that this site allows"},
    {"E109", "A name or URL is not a place in a storage account"},
    {"E110", "This site has no directory for a storage account"},
    {"E111", "There is nothing to run on the first node"},
    {"E112", "A secret is in a key vault"},
    {"E113", "A variable of an elastic job has a wrong value"},
    {"E114", "The image or its registry cannot be used"},
    {"E115", "A text is longer than Linux can pass to a program"},
    {"E116", "A variable of a TensorFlow job has a wrong value"},
    {"E120", "A mount option is not known or not allowed"},
    {"E121", "There is no key for a storage account"},
    {"W200", "A variable that a text refers to is not known"},
    {"W201", "Nothing is mounted at an output directory"},
    {"W202", "Several ranks share a GPU"},
}};

// Collects all faults of one job file. take() returns them in the order of their positions.
class Findings {
  public:
    explicit Findings(const job::PositionTable& positions) : positions_(positions) {}

    // `pointer` is the JSON pointer of the value at fault. It may be empty; the position is then
    // 0:0.
    void add(Finding finding, std::string_view pointer, std::string message, std::string hint = {});

    void add(job::Diagnostic diagnostic) { diagnostics_.push_back(std::move(diagnostic)); }

    [[nodiscard]] std::vector<job::Diagnostic> take();

  private:
    const job::PositionTable& positions_;
    std::vector<job::Diagnostic> diagnostics_;
};

}  // namespace batchai::plan
