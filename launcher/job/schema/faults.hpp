// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <algorithm>
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
    no_effect,
    carriage_return,
    lost_variable,
    count_,
};

struct FaultKind {
    std::string_view code;  // stable: never renumber, never reuse
    std::string_view title;
    std::string_view remedy;  // whole sentences, in Markdown
};

// Indexed by Fault.
inline constexpr std::array<FaultKind, static_cast<std::size_t>(Fault::count_)> fault_kinds = {{
    {"E001", "The file is larger than 1 MiB",
     "Move data or long scripts out of the file, into files on a mounted directory."},
    {"E002", "The file is empty",
     "Write an object with the key `properties` into it, or give the path of another file."},
    {"E003", "The file starts with a byte order mark",
     "Save the file as UTF-8 without a byte order mark."},
    {"E004", "The file is not UTF-8", "Save the file as UTF-8."},
    {"E005", "JSON has no comments",
     "Remove the comment, or keep its text as the value of a key such as `$comment`."},
    {"E006", "There is a comma before a closing bracket", "Remove the comma."},
    {"E007", "A string has a raw control character",
     "Write the character as an escape sequence, such as `\\t` or `\\n`."},
    {"E008", "Objects and arrays are nested deeper than 64",
     "Close the brackets that are still open; a job file needs six levels."},
    {"E009", "The text is not JSON",
     "Look at the place that the message names, and at the line before it, for a missing "
     "comma, quote or bracket."},
    {"E010", "A key is given twice in an object", "Remove one of the two keys."},
    {"E011", "The file does not hold an object", "Put the whole file into one pair of braces."},
    {"E012", "A key is not known",
     "Correct the spelling. If the key belongs to an older version, name that version in "
     "`$schema`."},
    {"E013", "A setting is missing", "Add the setting that the message names."},
    {"E014", "A value has the wrong type",
     "Give a value of the type that the message names. Numbers and `true` or `false` have "
     "no quotes."},
    {"E015", "A number is not an integer", "Write a number without a fraction or an exponent."},
    {"E016", "A number is out of range",
     "Choose a number within the limits that the message names."},
    {"E017", "A value is not one of those allowed",
     "Choose one of the values that the message lists."},
    {"E018", "Settings contradict each other",
     "Keep one of the settings that the message names, or add the one that is needed."},
    {"E019", "No toolkit is given",
     "Add the settings of one toolkit, such as `customToolkitSettings` or "
     "`horovodSettings`."},
    {"E020", "A setting is in the wrong object",
     "Move the setting to the object that the message names."},
    {"E021", "A mount path leaves the mount root", "Write a relative path without \"..\"."},
    {"E022", "Two mounts overlap",
     "Give each mount a `relativeMountPath` of its own, so that none lies inside another."},
    {"E023", "An id or name is used twice", "Rename one of the two."},
    {"E024", "A name is not a valid name",
     "Use only letters, digits and `_`, and do not start the name of a variable with a "
     "digit."},
    {"E025", "A duration cannot be read",
     "Write the duration as `P7D`, `PT1H30M`, `7.00:00:00` or `1:30:00`."},
    {"E026", "A text is empty or ill-formed",
     "Correct the text as the message says, or remove the key if it is optional."},
    {"E027", "A storage account or key is not known",
     "Give the account and its key with `--storage-account-name` and "
     "`--storage-account-key`, or set `AZURE_BATCHAI_STORAGE_ACCOUNT` and "
     "`AZURE_BATCHAI_STORAGE_KEY`. Check the spelling of the account."},
    {"E028", "There are too many faults to list",
     "Correct the faults that are listed, and check the file again."},
    {"W101", "An unknown key is ignored (older schema)",
     "Check the spelling. Name the newest version in `$schema`, or remove `$schema`, to "
     "have unknown keys refused."},
    {"W102", "A variable of the service is set by the job",
     "Choose a name that does not start with `AZ_BATCHAI_`."},
    {"W103", "A key belongs to another version of the schema",
     "Use the key that the message names instead, or name the version of the file in "
     "`$schema`."},
    {"W104", "A key is read-only and ignored",
     "Remove the key. It is part of what the service answers, and not of a request."},
    {"W105", "A setting has no effect",
     "Remove the setting. The message says why nothing is done with it."},
    {"W106", "A text has a carriage return",
     "Remove each `\\r`. It comes from a file with the line ends of Windows, and on the nodes it "
     "becomes part of a word, of a file's name or of a value."},
    {"W107", "A path looks like that of a volume without its root",
     "If the shell has replaced a `$NAME` in the file, quote the word that ends the here-document "
     "(`<< 'EOF'`) and write the file again. If the path is meant, nothing has to be done."},
}};

static_assert(std::ranges::none_of(fault_kinds, &std::string_view::empty, &FaultKind::remedy),
              "each code says what to do");

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
