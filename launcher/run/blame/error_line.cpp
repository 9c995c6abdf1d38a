// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/error_line.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::run {

namespace {

using base::split;
using base::trim;

enum class Kind {
    text,
    remark,  // a warning or a notice: programs go on after it
    error,
};

// What words in a line, in lower case, make of it.
struct LineRow {
    std::string_view word;
    Kind kind;
};

// The word that comes first in the line decides, and of two at one place the remark, because
// remarks speak of errors, too.
constexpr std::array line_rows{
    LineRow{"warning:", Kind::remark},  // bash, perl, git, compilers, Python's "UserWarning:"
    LineRow{"[warning", Kind::remark},
    LineRow{"warning]", Kind::remark},
    LineRow{" - warning - ", Kind::remark},  // Python's logging
    LineRow{" warning ", Kind::remark},
    LineRow{"[warn]", Kind::remark},
    LineRow{"warn:", Kind::remark},
    LineRow{"[info", Kind::remark},
    LineRow{"info:", Kind::remark},
    LineRow{" - info - ", Kind::remark},
    LineRow{"can't set the locale", Kind::remark},  // manpath
    LineRow{"cannot set lc_", Kind::remark},        // locale
    LineRow{"please check that your locale settings", Kind::remark},
    LineRow{"falling back to the standard locale", Kind::remark},
    LineRow{" 0 errors", Kind::remark},
    LineRow{"no errors", Kind::remark},
    LineRow{"error", Kind::error},
    LineRow{"exception", Kind::error},
    LineRow{"traceback", Kind::error},
    LineRow{"fatal", Kind::error},
    LineRow{"abort", Kind::error},
    LineRow{"assert", Kind::error},
    LineRow{"failed", Kind::error},
    LineRow{"failure", Kind::error},
    LineRow{"cannot", Kind::error},
    LineRow{"can't", Kind::error},
    LineRow{"could not", Kind::error},
    LineRow{"unable to", Kind::error},
    LineRow{"no such", Kind::error},
    LineRow{"no module named", Kind::error},
    LineRow{"not found", Kind::error},
    LineRow{"denied", Kind::error},
    LineRow{"refused", Kind::error},
    LineRow{"timed out", Kind::error},
    LineRow{"no space left", Kind::error},
    LineRow{"quota exceeded", Kind::error},
    LineRow{"read-only file system", Kind::error},
    LineRow{"out of memory", Kind::error},
    LineRow{"segmentation", Kind::error},
    LineRow{"undefined symbol", Kind::error},
    LineRow{"undefined reference", Kind::error},
    LineRow{"unbound variable", Kind::error},
    LineRow{"invalid option", Kind::error},
    LineRow{"panicked at", Kind::error},  // Rust
    LineRow{"panic:", Kind::error},       // Go
    LineRow{"terminate called", Kind::error},
};

// Returns whether the line is a message of the levels I or W of glog, as torch's C++ writes it
// ("[W1127 05:25:28.123 ProcessGroup.cpp:1] …", "W1127 …", "[W socket.cpp:1] …"), or of
// TensorFlow ("2026-11-27 05:25:28.1: W tensorflow/core/…").
bool is_remark_of_a_logger(std::string_view line) {
    if (line.find(": W tensorflow/") != line.npos || line.find(": I tensorflow/") != line.npos)
        return true;
    const bool bracket = line.starts_with('[');
    if (bracket) line.remove_prefix(1);
    if (line.size() < 6 || (line[0] != 'W' && line[0] != 'I')) return false;
    if (bracket && line[1] == ' ') return true;
    return std::all_of(line.begin() + 1, line.begin() + 5, base::is_digit) && line[5] == ' ';
}

Kind kind_of(std::string_view line) {
    if (is_remark_of_a_logger(line)) return Kind::remark;
    const std::string low = base::lower(line);
    std::size_t first = std::string::npos;
    Kind kind = Kind::text;
    for (const LineRow& row : line_rows) {
        const std::size_t at = low.find(row.word);
        if (at < first) {
            first = at;
            kind = row.kind;
        }
    }
    return kind;
}

// Removes the digits at the begin of the text. Returns whether there are some.
bool drop_number(std::string_view& text) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
}

bool drop(std::string_view& text, std::string_view prefix) {
    if (!text.starts_with(prefix)) return false;
    text.remove_prefix(prefix.size());
    return true;
}

// Removes the label of a rank: torch's "[rank2]: ", torchrun's "[default2]:", Open MPI's
// "[1,2]<stderr>:", and " 2: " of srun --label.
std::string_view without_label(std::string_view line) {
    for (const std::string_view name : {"[rank", "[default"}) {
        std::string_view rest = line;
        if (!drop(rest, name) || !drop_number(rest) || !drop(rest, "]:")) continue;
        static_cast<void>(drop(rest, " "));
        return rest;
    }
    std::string_view rest = line;
    if (drop(rest, "[") && drop_number(rest) && drop(rest, ",") && drop_number(rest) &&
        (drop(rest, "]<stderr>:") || drop(rest, "]<stderr>: ")))
        return rest;
    rest = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (drop_number(rest) && drop(rest, ": ")) return rest;
    return line;
}

// Returns what a terminal shows of a line in which progress bars have gone back to its begin.
std::string_view shown(std::string_view line) {
    while (line.ends_with('\r'))
        line.remove_suffix(1);
    const std::size_t back = line.rfind('\r');
    return back == std::string_view::npos ? line : line.substr(back + 1);
}

// Returns the index of the line that ends the traceback starting at `begin`: the first line after
// it that is not indented.
std::size_t traceback_end(const std::vector<std::string_view>& lines, std::size_t begin) {
    std::size_t i = begin + 1;
    while (i < lines.size() && (lines[i].empty() || lines[i].front() == ' '))
        ++i;
    return i;
}

// What horovod.common.elastic says of a failure after which it goes on.
constexpr std::string_view of_outlived_failure = "elastic: back to commit ";

}  // namespace

std::string presentable(std::string_view line) {
    constexpr std::size_t longest = 400;
    return base::printable_line(trim(line).substr(0, longest));
}

std::string first_error_line(std::string_view standard_error, bool outlives_losses) {
    auto lines = split(standard_error, '\n');
    for (std::string_view& line : lines)
        line = without_label(shown(line));
    std::optional<std::size_t> error;
    std::optional<std::size_t> text;
    std::optional<std::size_t> remark;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (trim(lines[i]).empty()) continue;
        if (outlives_losses && lines[i].starts_with(of_outlived_failure)) continue;
        if (lines[i].starts_with("Traceback (most recent call last)")) {
            const std::size_t end = traceback_end(lines, i);
            if (end < lines.size()) return presentable(lines[end]);
        }
        switch (kind_of(lines[i])) {
            case Kind::text:
                text = i;
                break;
            case Kind::remark:
                remark = i;
                break;
            case Kind::error:
                if (!error) error = i;
                break;
        }
    }
    // A C++ program says on the line after "terminate called" what it has thrown.
    if (error && *error + 1 < lines.size() && lines[*error].starts_with("terminate called") &&
        trim(lines[*error + 1]).starts_with("what():"))
        return presentable(trim(lines[*error + 1]).substr(std::string_view("what():").size()));
    for (const auto& found : {error, text, remark}) {
        if (found) return presentable(lines[*found]);
    }
    return {};
}

bool tells_of_a_broken_connection(std::string_view error_line) {
    const std::string low = base::lower(error_line);
    return low.find("connection reset") != std::string::npos ||
           low.find("connection closed by peer") != std::string::npos ||
           low.find("lost connection") != std::string::npos;
}

bool tells_of_a_lost_rank(std::string_view text) {
    return text.find("; look for its first error") != std::string_view::npos ||
           text.find("; look for the first error of the lost rank") != std::string_view::npos;
}

}  // namespace batchai::run
