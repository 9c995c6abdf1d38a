// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/python_dump.hpp"

#include <optional>
#include <string>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::visit {

namespace {

bool takes(std::string_view& text, std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
}

// '  File "PATH", line NUMBER in FUNCTION'. A path may contain anything but a newline, and Python
// escapes what is not ASCII.
std::optional<StackFrame> frame_in(std::string_view line) {
    if (!takes(line, "  File ")) return std::nullopt;
    constexpr std::string_view before_line = ", line ";
    constexpr std::string_view before_function = " in ";
    const std::size_t at = line.rfind(before_line);
    if (at == std::string_view::npos) return std::nullopt;
    std::string_view file = line.substr(0, at);
    if (file.size() >= 2 && file.front() == '"' && file.back() == '"')
        file = file.substr(1, file.size() - 2);
    line.remove_prefix(at + before_line.size());
    const std::size_t in = line.find(before_function);
    if (in == std::string_view::npos) return std::nullopt;
    // "???" where Python does not know the line.
    const int number = base::number_in<int>(line.substr(0, in)).value_or(0);
    return StackFrame{.file = base::printable(file),
                      .line = number,
                      .function = base::printable(line.substr(in + before_function.size()))};
}

}  // namespace

std::vector<StackFrame> frames_in_dump(std::string_view text) {
    std::vector<StackFrame> frames;
    bool begun = false;
    for (const std::string_view line : base::split(text, '\n')) {
        if (auto frame = frame_in(line)) {
            if (begun) frames.push_back(std::move(*frame));
        } else if (!line.empty() && line.front() != ' ') {
            if (begun) break;  // "Current thread's C stack trace …"
            begun = line.starts_with("Stack (");
        }
    }
    return frames;
}

}  // namespace batchai::visit
