// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "status/page/axis.hpp"

// The parts that a page is made of.
namespace batchai::status {

// Returns the text for an element or an attribute in quotes. Markup of the text becomes visible,
// characters that could hide or reorder text become U+FFFD, and a long text is cut.
[[nodiscard]] std::string escape(std::string_view text, std::size_t most = 2000);

// Returns the source expression of a Content-Security-Policy that allows exactly this style sheet:
// 'sha256-…'.
[[nodiscard]] std::string policy_hash(std::string_view style);

// Returns a position on an axis as an attribute's value: "12.34%".
[[nodiscard]] std::string percent(double part);

// Returns the row below a chart that shows an axis of `seconds`.
[[nodiscard]] std::string axis_row(double seconds);

// A line of a plot. A point without a value ends a stretch of the line.
struct PlotLine {
    std::string css_class;
    std::string title;                              // of the tooltip; not yet escaped
    std::vector<std::pair<double, double>> points;  // 0 to 1 each; y is negative for no value
};
// Returns an SVG of lines, which fills the width of the page.
[[nodiscard]] std::string plot(const std::vector<PlotLine>& lines);

// Returns the class of the n-th of a few lines that are told apart by colour.
inline constexpr std::size_t colours = 8;
[[nodiscard]] std::string colour_class(std::size_t n);

struct LegendEntry {
    std::string css_class;
    std::string text;  // not yet escaped
};
[[nodiscard]] std::string legend(const std::vector<LegendEntry>& entries);

}  // namespace batchai::status
