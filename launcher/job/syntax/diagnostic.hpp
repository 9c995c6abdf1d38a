// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::job {

// Returns the text of a job file with each character of a secret value replaced by "*", so that the
// text may be shown. A secret is the value of a key that the field table marks as secret, unless
// the value is a placeholder in < >. Works on broken files too, and masks when in doubt. Lines and
// columns do not change.
[[nodiscard]] std::string mask_secrets(std::string_view source);

// A place in a job file. Lines and columns count from 1. Columns and lengths count characters: a
// UTF-8 sequence, a byte that is not valid UTF-8, and a tab each count as one. Line 0 means that
// there is no place. A place may be just after the end of its line.
struct Position {
    std::size_t line = 0;
    std::size_t column = 0;
    std::size_t length = 0;
    bool operator==(const Position&) const = default;
};

enum class Severity : std::uint8_t { error, warning };

// A fault of a job file. The code ("E012", "W101") is stable and identifies the kind of fault. The
// message says what is wrong, and the hint, which may be empty, says what to do. Neither has a full
// stop or a newline at its end.
struct Diagnostic {
    Severity severity = Severity::error;
    std::string code;
    Position position;
    std::string message;
    std::string hint;
    bool operator==(const Diagnostic&) const = default;
};

// Returns "job.json:14:9: error: unknown key "nodeCout"; did you mean "nodeCount"? [E012]", then
// the source line and a caret line, each with a newline. `source` is the file's text. Without a
// place, ":14:9" and the two lines are left out; if the source has no such line, only the two lines
// are left out. Tabs are kept, so that the caret is in the right column. A long line is cut around
// the caret. Control characters and broken UTF-8 are never output as they are.
[[nodiscard]] std::string render(const Diagnostic& diagnostic, std::string_view file_name,
                                 std::string_view source);

// Renders all diagnostics in the given order, followed, unless there are none, by a summary such as
// "2 errors, 1 warning".
[[nodiscard]] std::string render_all(const std::vector<Diagnostic>& diagnostics,
                                     std::string_view file_name, std::string_view source);

// Returns the diagnostics for programs: a JSON array of {"file", "line", "column", "length",
// "severity", "code", "message", "hint"}, with two-space indent and a newline at the end. It
// contains no text of the file except what the messages quote.
[[nodiscard]] std::string diagnostics_json(const std::vector<Diagnostic>& diagnostics,
                                           std::string_view file_name);

[[nodiscard]] bool has_error(const std::vector<Diagnostic>& diagnostics);

}  // namespace batchai::job
