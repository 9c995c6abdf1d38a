// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace re2 {
class RE2;
}  // namespace re2

namespace batchai::job {

// The regular expression that finds a sweep's metric in the lines of a log. Its time is linear in
// the length of the line and its memory is limited, whatever the expression. It therefore has no
// backreferences and does not look ahead.
class MetricPattern {
  public:
    // Refuses an expression that does not have exactly one group for the number. Other groups are
    // allowed if that group is the only one with a name.
    [[nodiscard]] static base::Result<MetricPattern> compile(std::string_view text);

    // Returns what the group matches in the line; nothing if the line does not match.
    [[nodiscard]] std::optional<std::string_view> find(std::string_view line) const;

  private:
    MetricPattern(std::shared_ptr<const re2::RE2> expression, int group)
        : expression_(std::move(expression)), group_(group) {}

    std::shared_ptr<const re2::RE2> expression_;
    int group_;
};

}  // namespace batchai::job
