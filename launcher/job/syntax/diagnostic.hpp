// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace batchai::job {

// A job file's text with each character of a secret's value replaced by "*", so that it may be
// shown: what stands behind a key that the field table calls secret, unless it is a placeholder in
// < >. Works on broken files too; when in doubt it masks. Lines and columns stay as they are.
[[nodiscard]] std::string mask_secrets(std::string_view source);

// A place in a job file. Lines and columns count from 1; columns and length count characters
// (UTF-8 sequences; a byte that is no valid UTF-8 counts as one), a tab is one. Line 0: no place.
// A place may stand just behind the end of its line.
struct Position {
    std::size_t line = 0;
    std::size_t column = 0;
    std::size_t length = 0;
    bool operator==(const Position&) const = default;
};

enum class Severity : std::uint8_t { error, warning };

// One fault of a job file. The code ("E012", "W101") is stable and names the kind of fault; the
// message says what is wrong; the hint, which may be empty, what to do. No full stop, no newline.
struct Diagnostic {
    Severity severity = Severity::error;
    std::string code;
    Position position;
    std::string message;
    std::string hint;
    bool operator==(const Diagnostic&) const = default;
};

// "job.json:14:9: error: unknown key "nodeCout"; did you mean "nodeCount"? [E012]", then the source
// line and a caret line, each with a newline. `source` is the file's text. Without a place, or
// where the source has no such line, only the first line, and no ":0:0". Tabs are kept, so that
// the caret stands right; a long line is cut around the caret; control characters and broken
// UTF-8 never reach the output raw.
[[nodiscard]] std::string render(const Diagnostic& diagnostic, std::string_view file_name,
                                 std::string_view source);

// All of them in the given order, and at the end, if there is any, "2 errors, 1 warning".
[[nodiscard]] std::string render_all(const std::vector<Diagnostic>& diagnostics,
                                     std::string_view file_name, std::string_view source);

// For machines: a JSON array of {"file", "line", "column", "length", "severity", "code",
// "message", "hint"}, two-space indent, a newline at the end. No text of the file is in it other
// than what the messages quote.
[[nodiscard]] std::string diagnostics_json(const std::vector<Diagnostic>& diagnostics,
                                           std::string_view file_name);

[[nodiscard]] bool has_error(const std::vector<Diagnostic>& diagnostics);

}  // namespace batchai::job
