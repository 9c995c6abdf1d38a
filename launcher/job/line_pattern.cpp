// SPDX-License-Identifier: GPL-2.0-or-later
#include "job/line_pattern.hpp"

#include <utility>
#include <vector>

#include <fmt/format.h>
#include <re2/re2.h>

namespace batchai::job {

namespace {

// A counted repetition such as (a{1000}){1000} would otherwise take much memory.
constexpr std::int64_t most_memory = 8LL << 20U;
constexpr std::size_t longest_pattern = 1000;

}  // namespace

base::Result<LinePattern> LinePattern::compile(std::string_view text) {
    if (text.size() > longest_pattern)
        return base::fail(fmt::format("has {} bytes, more than {}", text.size(), longest_pattern));
    re2::RE2::Options options(re2::RE2::Quiet);
    options.set_max_mem(most_memory);
    options.set_never_nl(true);
    auto expression =
        std::make_shared<const re2::RE2>(re2::StringPiece(text.data(), text.size()), options);
    if (!expression->ok())
        return base::fail(
            fmt::format("is not a regular expression: {}", expression->error()), "",
            "the syntax is that of RE2, which has no backreferences and does not look ahead");
    return LinePattern(std::move(expression));
}

bool LinePattern::matches(std::string_view line) const {
    return re2::RE2::PartialMatch(re2::StringPiece(line.data(), line.size()), *expression_);
}

base::Result<MetricPattern> MetricPattern::compile(std::string_view text) {
    LinePattern pattern = TRY(LinePattern::compile(text));
    const re2::RE2& expression = *pattern.expression_;
    const int groups = expression.NumberOfCapturingGroups();
    const auto& named = expression.NamedCapturingGroups();
    if (named.size() == 1) {
        const int group = named.begin()->second;
        return MetricPattern(std::move(pattern), group);
    }
    if (groups == 1) return MetricPattern(std::move(pattern), 1);
    return base::fail(
        groups == 0 ? "has no group for the number"
                    : fmt::format("has {} groups, and it is not clear which is the number", groups),
        "",
        "put the number into one pair of parentheses, as in \"loss: ([0-9.]+)\", or give its "
        "group a name: \"(?P<metric>[0-9.]+)\"");
}

std::optional<std::string_view> MetricPattern::find(std::string_view line) const {
    std::vector<re2::StringPiece> found(static_cast<std::size_t>(group_) + 1);
    const re2::StringPiece text(line.data(), line.size());
    if (!pattern_.expression_->Match(text, 0, text.size(), re2::RE2::UNANCHORED, found.data(),
                                     group_ + 1))
        return std::nullopt;
    const re2::StringPiece& number = found.back();
    if (number.data() == nullptr) return std::nullopt;
    return std::string_view(number.data(), number.size());
}

}  // namespace batchai::job
