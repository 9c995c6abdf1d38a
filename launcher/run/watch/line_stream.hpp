// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "job/line_pattern.hpp"

namespace batchai::run {

// Finds lines that match a pattern in streams that come in pieces. A carriage return ends a line as
// well, so that each state of a progress bar is one.
class LineStream {
  public:
    explicit LineStream(job::LinePattern pattern) : pattern_(std::move(pattern)) {}

    // Returns whether a line that ends in this piece of the stream matches.
    [[nodiscard]] bool feed(std::size_t stream, std::string_view bytes);

  private:
    job::LinePattern pattern_;
    std::map<std::size_t, std::string> rests_;  // the begin of a line, of each stream
};

}  // namespace batchai::run
