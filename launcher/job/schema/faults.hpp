// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "job/syntax/diagnostic.hpp"

namespace batchai::job {

// The kinds of fault that this library reports. Other parts may use codes from E100 and W200 up.
enum class Fault : std::uint8_t {
    file_too_large,
    empty_file,
    byte_order_mark,
    not_utf8,
    comment,
    trailing_comma,
    control_character,
    nested_too_deep,
    syntax,
    duplicate_key,
    top_level,
    unknown_key,
    missing,
    wrong_type,
    not_an_integer,
    out_of_range,
    not_a_choice,
    conflict,
    no_toolkit,
    misplaced,
    leaves_mount_root,
    overlapping_mounts,
    duplicate_name,
    bad_name,
    bad_duration,
    bad_text,
    storage_account,
    too_many_faults,
    unknown_key_ignored,
    reserved_name,
    other_schema,
    read_only,
    count_,
};

struct FaultKind {
    std::string_view code;  // stable: never renumber, never reuse
    std::string_view title;
};

// Indexed by Fault.
inline constexpr std::array<FaultKind, static_cast<std::size_t>(Fault::count_)> fault_kinds = {{
    {"E001", "The file is larger than 1 MiB"},
    {"E002", "The file is empty"},
    {"E003", "The file starts with a byte order mark"},
    {"E004", "The file is not UTF-8"},
    {"E005", "JSON has no comments"},
    {"E006", "There is a comma before a closing bracket"},
    {"E007", "A string has a raw control character"},
    {"E008", "Objects and arrays are nested deeper than 64"},
    {"E009", "The text is not JSON"},
    {"E010", "A key is given twice in an object"},
    {"E011", "The file does not hold an object"},
    {"E012", "A key is not known"},
    {"E013", "A setting is missing"},
    {"E014", "A value has the wrong type"},
    {"E015", "A number is not an integer"},
    {"E016", "A number is out of range"},
    {"E017", "A value is not one of those allowed"},
    {"E018", "Settings contradict each other"},
    {"E019", "No toolkit is given"},
    {"E020", "A setting is in the wrong object"},
    {"E021", "A mount path leaves the mount root"},
    {"E022", "Two mounts overlap"},
    {"E023", "An id or name is used twice"},
    {"E024", "A name is not a valid name"},
    {"E025", "A duration cannot be read"},
    {"E026", "A text is empty or ill-formed"},
    {"E027", "A storage account or key is not known"},
    {"E028", "There are too many faults to list"},
    {"W101", "An unknown key is ignored (older schema)"},
    {"W102", "A variable of the service is set by the job"},
    {"W103", "A key belongs to another version of the schema"},
    {"W104", "A key is read-only and ignored"},
}};

[[nodiscard]] constexpr const FaultKind& kind_of(Fault fault) {
    return fault_kinds[static_cast<std::size_t>(fault)];
}

[[nodiscard]] Diagnostic make_diagnostic(Fault fault, Position position, std::string message,
                                         std::string hint = {});

// Collects diagnostics. Keeps the first 100 and counts the rest.
class Faults {
  public:
    void add(Fault fault, Position position, std::string message, std::string hint = {});
    [[nodiscard]] bool any_at(Position position) const;

    // Returns the diagnostics sorted by position. Those of one position stay in the order in which
    // they were added.
    [[nodiscard]] std::vector<Diagnostic> take_sorted();

  private:
    std::vector<Diagnostic> diagnostics_;
    std::size_t not_listed_ = 0;
};

}  // namespace batchai::job
