// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/html.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "base/text.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::status {

namespace {

constexpr int plot_width = 1000;
constexpr int plot_height = 120;

std::string base64(std::string_view bytes) {
    constexpr std::string_view alphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = i; j < i + 3; ++j)
            group = group << 8U | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
        for (std::size_t j = 0; j < 4; ++j) {
            const bool there = i + j <= bytes.size();
            out += there ? alphabet[group >> (6U * (3 - j)) & 63U] : '=';
        }
    }
    return out;
}

}  // namespace

std::string escape(std::string_view text, std::size_t most) {
    const bool cut = text.size() > most;
    // A character is not cut in two, because what is not UTF-8 becomes U+FFFD.
    const std::string safe = job::printable(text.substr(0, most));
    std::string out;
    out.reserve(safe.size());
    for (const char c : safe) {
        switch (c) {
            case '&':
                out += "&amp;";
                break;
            case '<':
                out += "&lt;";
                break;
            case '>':
                out += "&gt;";
                break;
            case '"':
                out += "&quot;";
                break;
            case '\'':
                out += "&#39;";
                break;
            default:
                out += c;
        }
    }
    if (cut) out += " …";
    return out;
}

std::string policy_hash(std::string_view style) {
    const std::string digits = base::sha256_hex(style);
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes += static_cast<char>(
            base::number_in<unsigned char>(std::string_view(digits).substr(i, 2), 16).value_or(0));
    return "'sha256-" + base64(bytes) + "'";
}

std::string percent(double part) {
    if (!std::isfinite(part)) part = 0;
    return fmt::format("{:.2f}%", std::clamp(part, 0.0, 1.0) * 100);
}

std::string axis_row(double seconds) {
    constexpr int most = 5;
    // A label needs this share of the axis.
    constexpr double room = 0.12;
    std::string out = "<svg class=\"axis\" aria-hidden=\"true\">";
    for (const Tick& tick : ticks_of(seconds, most)) {
        const double at = seconds > 0 ? tick.seconds / seconds : 0;
        const std::string x = percent(at);
        out += fmt::format("<line x1=\"{0}\" x2=\"{0}\" y1=\"0\" y2=\"5\"/>", x);
        const char* const anchor = at < room / 2 ? "start" : at > 1 - room / 2 ? "end" : "middle";
        out += fmt::format("<text x=\"{}\" y=\"18\" text-anchor=\"{}\">{}</text>", x, anchor,
                           tick.text);
    }
    return out + "</svg>";
}

std::string plot(const std::vector<PlotLine>& lines) {
    std::string out =
        fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\">",
                    plot_width, plot_height);
    for (const double y : {0.0, 0.5, 1.0})
        out += fmt::format("<line class=\"grid\" x1=\"0\" x2=\"{}\" y1=\"{:.0f}\" y2=\"{:.0f}\"/>",
                           plot_width, y * plot_height, y * plot_height);
    for (const PlotLine& line : lines) {
        out += fmt::format("<path class=\"line {}\" d=\"", line.css_class);
        bool pen_up = true;
        for (const auto& [x, y] : line.points) {
            if (!std::isfinite(x) || !std::isfinite(y) || y < 0) {
                pen_up = true;
                continue;
            }
            out += fmt::format("{}{:.0f} {:.0f}", pen_up ? 'M' : 'L',
                               std::clamp(x, 0.0, 1.0) * plot_width,
                               (1 - std::clamp(y, 0.0, 1.0)) * plot_height);
            // A stretch of one point is a dot.
            if (pen_up) out += "h0.1";
            pen_up = false;
        }
        out += fmt::format("\"><title>{}</title></path>", escape(line.title));
    }
    return out + "</svg>";
}

std::string colour_class(std::size_t n) {
    return fmt::format("c{}", n % colours);
}

std::string legend(const std::vector<LegendEntry>& entries) {
    std::string out = "<p class=\"legend\">";
    for (const LegendEntry& entry : entries)
        out += fmt::format("<span><i class=\"{}\"></i>{}</span> ", entry.css_class,
                           escape(entry.text));
    return out + "</p>\n";
}

}  // namespace batchai::status
