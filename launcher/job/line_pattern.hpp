// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace re2 {
class RE2;
}  // namespace re2

namespace batchai::job {

// A regular expression for the lines of a log. Its time is linear in the length of the line and its
// memory is limited, whatever the expression. It therefore has no backreferences and does not look
// ahead. The syntax is that of RE2.
class LinePattern {
  public:
    [[nodiscard]] static base::Result<LinePattern> compile(std::string_view text);

    // Returns whether the expression matches some part of the line.
    [[nodiscard]] bool matches(std::string_view line) const;

  private:
    friend class MetricPattern;
    explicit LinePattern(std::shared_ptr<const re2::RE2> expression)
        : expression_(std::move(expression)) {}

    std::shared_ptr<const re2::RE2> expression_;
};

// The one that finds a sweep's metric.
class MetricPattern {
  public:
    // Refuses an expression that does not have exactly one group for the number. Other groups are
    // allowed if that group is the only one with a name.
    [[nodiscard]] static base::Result<MetricPattern> compile(std::string_view text);

    // Returns what the group matches in the line; nothing if the line does not match.
    [[nodiscard]] std::optional<std::string_view> find(std::string_view line) const;

  private:
    MetricPattern(LinePattern pattern, int group) : pattern_(std::move(pattern)), group_(group) {}

    LinePattern pattern_;
    int group_;
};

}  // namespace batchai::job
