// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "status/page/html.hpp"
#include "status/page/page.hpp"

namespace batchai::status {

namespace {

constexpr std::size_t most_speed_rows = 64;

struct Part {
    std::string_view name;
    std::string_view css_class;
    double seconds;
};

std::string parts(const Speed& speed) {
    const std::array<Part, 3> all{
        {{"own work", "c0", speed.work},
         {"waiting for the slowest rank", "c1", speed.waiting},
         {"communication that was not hidden", "c4", speed.communication}}};
    std::string out = "<svg class=\"parts\">";
    double at = 0;
    std::vector<LegendEntry> entries;
    for (const Part& part : all) {
        const double share = speed.share(part.seconds);
        out += fmt::format("<rect x=\"{}\" width=\"{}\" y=\"2\" height=\"24\" class=\"{}\"/>",
                           percent(at), percent(share), part.css_class);
        at += share;
        entries.push_back(
            {std::string(part.css_class), fmt::format("{}: {} ({:.0f} %)", part.name,
                                                      duration_text(part.seconds), share * 100)});
    }
    out += "</svg>\n" + legend(entries);
    const double hidden = std::max(0.0, speed.transfer - speed.communication);
    out += fmt::format(
        "<p>A step took {} (median of all ranks), in which collectives moved data "
        "for {}",
        duration_text(speed.total), duration_text(speed.transfer));
    if (speed.transfer > 0)
        out += fmt::format(", {:.0f} % of that behind the ranks' own work",
                           std::min(1.0, hidden / speed.transfer) * 100);
    if (speed.bytes > 0) out += fmt::format("; {:.1f} MB were reduced", speed.bytes / 1e6);
    return out + ".</p>\n";
}

std::string work_chart(const Speed& speed) {
    double most = 0;
    for (const RankSpeed& rank : speed.ranks) {
        for (const double own : rank.series)
            most = std::max(most, own);
    }
    if (most <= 0 || speed.bins < 2) return {};
    most = round_up(most);
    const bool few = speed.ranks.size() <= colours;
    std::vector<PlotLine> lines;
    std::vector<LegendEntry> entries;
    std::size_t slow = 0;
    for (std::size_t i = 0; i < speed.ranks.size() && lines.size() < 512; ++i) {
        const RankSpeed& rank = speed.ranks[i];
        const bool stands_out = !few && rank.slow_since && slow < colours;
        const std::string css_class = few          ? colour_class(i)
                                      : stands_out ? colour_class(++slow)
                                                   : std::string("mute");
        PlotLine line{
            .css_class = css_class, .title = fmt::format("rank {}", rank.rank), .points = {}};
        for (std::size_t bin = 0; bin < rank.series.size(); ++bin)
            line.points.emplace_back(
                (static_cast<double>(bin) + 0.5) / static_cast<double>(speed.bins),
                rank.series[bin] < 0 ? -1 : rank.series[bin] / most);
        if (few || stands_out) entries.push_back({css_class, fmt::format("rank {}", rank.rank)});
        lines.push_back(std::move(line));
    }
    if (!few) entries.push_back({"mute", "each other line is a rank"});
    // Lines that stand out are drawn over the others.
    std::stable_partition(lines.begin(), lines.end(),
                          [](const PlotLine& line) { return line.css_class == "mute"; });
    return fmt::format(
        "<div class=\"chart\"><div class=\"scale\"><span>Own work of each rank in a "
        "step, over time</span><span>{}</span></div>{}{}</div>\n{}",
        duration_text(most), plot(lines), axis_row(seconds_between(speed.begin, speed.end)),
        legend(entries));
}

std::string speed_table(const Speed& speed) {
    std::vector<const RankSpeed*> ranks;
    for (const RankSpeed& rank : speed.ranks)
        ranks.push_back(&rank);
    const bool all = ranks.size() <= most_speed_rows;
    if (!all) {
        std::stable_sort(ranks.begin(), ranks.end(), [](const auto* a, const auto* b) {
            return std::pair(a->slow_since.has_value(), a->own) >
                   std::pair(b->slow_since.has_value(), b->own);
        });
        ranks.resize(most_speed_rows);
    }
    std::string out =
        "<div class=\"scroll\"><table><thead><tr><th class=\"number\">Rank</th><th>Node</th>"
        "<th class=\"number\">Steps</th><th class=\"number\">Steps/s</th>"
        "<th class=\"number\">Own work</th><th class=\"number\">Times the others</th></tr></thead>"
        "<tbody>\n";
    for (const RankSpeed* const rank : ranks)
        out += fmt::format(
            "<tr{}><td class=\"number\">{}</td><td>{}</td><td class=\"number\">{}</td>"
            "<td class=\"number\">{:.2f}</td><td class=\"number\">{}</td>"
            "<td class=\"number\">{:.2f}</td></tr>\n",
            rank->slow_since ? " class=\"slow\"" : "", rank->rank, escape(rank->host, 200),
            rank->steps, rank->steps_per_second, duration_text(rank->own), rank->ratio);
    out += "</tbody></table></div>\n";
    if (!all)
        out += fmt::format("<p class=\"lead\">The {} slowest of {} ranks are shown.</p>\n",
                           most_speed_rows, speed.ranks.size());
    return out;
}

}  // namespace

std::string speed_section(const Findings& findings) {
    std::string out = "<h2>Ranks and communication</h2>\n";
    if (!findings.speed.known())
        return out + fmt::format("<p class=\"note\">{}</p>\n", escape(findings.why_no_speed));
    out += parts(findings.speed) + work_chart(findings.speed) + speed_table(findings.speed);
    bool whole = true;
    for (const RankTimeline& rank : findings.facts.timelines.ranks)
        whole = whole && rank.whole;
    if (!whole)
        out +=
            "<p class=\"lead\">The timelines are long, so these numbers are from parts of them "
            "that are spread over the whole time.</p>\n";
    return out;
}

}  // namespace batchai::status
