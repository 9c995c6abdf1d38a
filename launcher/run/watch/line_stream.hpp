// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "job/line_pattern.hpp"

namespace batchai::run {

struct LinesSeen {
    bool printed = false;     // something that the program itself has printed
    bool progressed = false;  // a line that matches the pattern
};

// Looks at the lines of streams that come in pieces. A carriage return ends a line as well, so that
// each state of a progress bar is one. What mpi_bridge says of ranks that stand still is not the
// program's own.
class LineStream {
  public:
    // Without a pattern, no line matches.
    explicit LineStream(std::optional<job::LinePattern> pattern) : pattern_(std::move(pattern)) {}

    [[nodiscard]] LinesSeen feed(std::size_t stream, std::string_view bytes);

  private:
    std::optional<job::LinePattern> pattern_;
    std::map<std::size_t, std::string> rests_;  // the begin of a line, of each stream
};

}  // namespace batchai::run
