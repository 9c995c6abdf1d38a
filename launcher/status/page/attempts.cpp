// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include "base/record.hpp"
#include "base/text.hpp"
#include "record/ended_by.hpp"
#include "status/history/phases.hpp"
#include "status/page/html.hpp"
#include "status/page/page.hpp"

namespace batchai::status {

namespace {

// The newest attempts are shown in detail: as many as keep the page small.
constexpr std::size_t most_attempts = 8;
constexpr std::size_t most_attempt_rows = 128;
constexpr std::size_t rows_of_all_attempts = 256;
// An elastic job has some phases for each start of its ranks.
constexpr std::size_t bars_of_all_rows = 4000;
constexpr std::size_t fewest_bars = 10;

std::string rect(double begin, double end, std::string_view css_class, std::string_view title) {
    // What is short is still seen.
    constexpr double least = 0.002;
    return fmt::format(
        "<rect x=\"{}\" width=\"{}\" y=\"2\" height=\"16\" class=\"{}\"><title>{}</title></rect>",
        percent(std::min(begin, 1 - least)), percent(std::max(end - begin, least)), css_class,
        title);
}

// Returns the bars, or the longest of them if there are too many, in their order.
std::vector<const Bar*> bars_to_draw(const NodeRow& row, std::size_t most) {
    std::vector<const Bar*> out;
    for (const Bar& bar : row.bars)
        out.push_back(&bar);
    if (out.size() <= most) return out;
    std::nth_element(
        out.begin(), out.begin() + static_cast<std::ptrdiff_t>(most), out.end(),
        [](const Bar* a, const Bar* b) { return a->end - a->begin > b->end - b->begin; });
    out.resize(most);
    std::sort(out.begin(), out.end());
    return out;
}

std::string bars_of_row(const NodeRow& row, const AttemptBars& attempt, std::size_t most) {
    const double seconds = std::max(attempt.seconds(), 1e-6);
    const auto at = [&](base::Time time) {
        return std::clamp(seconds_between(attempt.begin, time) / seconds, 0.0, 1.0);
    };
    std::string out = "<svg><rect class=\"track\" width=\"100%\" height=\"20\"/>";
    for (const Bar* const drawn : bars_to_draw(row, most)) {
        const Bar& bar = *drawn;
        const std::string name = escape(bar.phase, 100);
        const std::string title =
            fmt::format("{}: {}{}", name, duration_text(seconds_between(bar.begin, bar.end)),
                        bar.failed ? ", failed" : (bar.open ? ", runs" : ""));
        double begin = at(bar.begin);
        const double end = at(bar.end);
        const double ready = bar.ready ? std::clamp(at(*bar.ready), begin, end) : begin;
        // What takes less than this cannot be seen.
        constexpr double visible = 0.004;
        if (ready - begin > visible) {
            out += rect(begin, ready, fmt::format("begins {}", look_of(bar.phase).css_class),
                        fmt::format("{}: {} until the node was ready", name,
                                    duration_text(seconds_between(bar.begin, *bar.ready))));
            begin = ready;
        }
        out += rect(begin, end, look_of(bar.phase).css_class, title);
        if (bar.failed) out += rect(std::max(begin, end - visible), end, "bad", title);
    }
    return out + "</svg>";
}

std::string gantt(const AttemptBars& attempt, std::size_t rows, std::size_t most_bars) {
    std::string out = "<div class=\"gantt\">\n";
    for (std::size_t i = 0; i < std::min(rows, attempt.rows.size()); ++i) {
        const NodeRow& row = attempt.rows[i];
        const std::string name = escape(row.node, 200);
        out += fmt::format("<div class=\"node\" title=\"{}\">{}</div>{}\n", name, name,
                           bars_of_row(row, attempt, most_bars));
    }
    out += "<div></div>" + axis_row(attempt.seconds()) + "\n</div>\n";
    if (attempt.rows.size() > rows)
        out += fmt::format("<p class=\"lead\">{} more nodes are not shown.</p>\n",
                           attempt.rows.size() - rows);
    const bool all = std::all_of(attempt.rows.begin(), attempt.rows.end(),
                                 [&](const NodeRow& row) { return row.bars.size() <= most_bars; });
    if (!all)
        out += fmt::format(
            "<p class=\"lead\">Only the {} longest phases of each node are "
            "drawn.</p>\n",
            most_bars);
    return out;
}

std::string phase_legend(const AttemptBars& attempt) {
    std::vector<LegendEntry> entries;
    bool failed = false;
    const auto add = [&](std::string css_class, std::string text) {
        for (const LegendEntry& entry : entries) {
            if (entry.text == text) return;
        }
        if (entries.size() < 16) entries.push_back({std::move(css_class), std::move(text)});
    };
    for (const NodeRow& row : attempt.rows) {
        for (const Bar& bar : row.bars) {
            add(std::string(look_of(bar.phase).css_class), bar.phase);
            failed = failed || bar.failed;
        }
    }
    if (failed) add("bad", "failed");
    return legend(entries);
}

using Number = std::function<double(const ResourcePoint&)>;  // negative: none

// A chart of one number of all nodes over the time of the attempt.
std::string chart(const std::vector<NodeResources>& nodes, const AttemptBars& attempt,
                  std::string_view title, double most, const std::string& most_text,
                  const Number& number) {
    std::vector<PlotLine> lines;
    const double seconds = std::max(attempt.seconds(), 1e-6);
    const bool few = nodes.size() <= colours;
    bool any = false;
    for (std::size_t i = 0; i < std::min(nodes.size(), most_attempt_rows); ++i) {
        PlotLine line{
            .css_class = few ? colour_class(i) : "mute", .title = nodes[i].node, .points = {}};
        for (const ResourcePoint& point : nodes[i].points) {
            const double value = number(point);
            any = any || value >= 0;
            line.points.emplace_back(seconds_between(attempt.begin, point.time) / seconds,
                                     value < 0 ? value : value / most);
        }
        lines.push_back(std::move(line));
    }
    if (!any) return {};
    return fmt::format(
        "<div class=\"chart\"><div class=\"scale\"><span>{}</span><span>{}</span>"
        "</div>{}{}</div>\n",
        title, most_text, plot(lines), axis_row(attempt.seconds()));
}

std::string memory_text(double bytes) {
    return bytes < base::gibi ? fmt::format("{:.0f} MiB", bytes / base::mebi)
                              : fmt::format("{:.1f} GiB", bytes / base::gibi);
}

std::string resources_table(const std::vector<NodeResources>& nodes) {
    const bool gpus = std::any_of(nodes.begin(), nodes.end(), [](const NodeResources& node) {
        return node.gpu_mean.has_value();
    });
    std::string out =
        "<div class=\"scroll\"><table><thead><tr><th>Node</th><th class=\"number\">Cores given</th>"
        "<th class=\"number\">Cores used</th><th class=\"number\">Memory asked</th>"
        "<th class=\"number\">Memory peak</th>";
    out += gpus ? "<th class=\"number\">GPUs busy</th></tr></thead><tbody>\n"
                : "</tr></thead><tbody>\n";
    const auto number = [](const std::string& text) {
        return fmt::format("<td class=\"number\">{}</td>", text);
    };
    for (std::size_t i = 0; i < std::min(nodes.size(), most_attempt_rows); ++i) {
        const NodeResources& node = nodes[i];
        out += fmt::format("<tr><td>{}</td>", escape(node.node, 200));
        out += number(node.cpus_given > 0 ? std::to_string(node.cpus_given) : "");
        out += number(fmt::format("{:.1f}", node.cpus_mean));
        out += number(node.memory_asked > 0 ? memory_text(static_cast<double>(node.memory_asked))
                                            : "");
        out += number(memory_text(static_cast<double>(node.memory_peak)));
        if (gpus) out += number(node.gpu_mean ? fmt::format("{:.0f} %", *node.gpu_mean * 100) : "");
        out += "</tr>\n";
    }
    return out + "</tbody></table></div>\n";
}

std::string resources(const Findings& findings, const AttemptBars& attempt) {
    for (const auto& [number, nodes] : findings.resources) {
        if (number != attempt.number || nodes.empty()) continue;
        double cpus = 1;
        double memory = base::mebi;
        for (const NodeResources& node : nodes) {
            cpus = std::max(cpus, static_cast<double>(node.cpus_given));
            for (const ResourcePoint& point : node.points) {
                cpus = std::max(cpus, point.cpus.value_or(0));
                memory = std::max(memory, point.memory);
            }
        }
        // The top of the axis is a round number of cores, or of the unit of memory.
        if (cpus > 10) cpus = round_up(cpus);
        cpus = std::ceil(cpus);
        const double unit = memory < base::gibi ? base::mebi : base::gibi;
        memory = round_up(memory / unit) * unit;
        std::string out = "<h3>What the nodes used</h3>\n";
        out += chart(nodes, attempt, "CPU cores in use", cpus, fmt::format("{:.0f} cores", cpus),
                     [](const ResourcePoint& point) { return point.cpus.value_or(-1); });
        out += chart(nodes, attempt, "Memory", memory, memory_text(memory),
                     [](const ResourcePoint& point) { return point.memory; });
        out += chart(nodes, attempt, "GPUs busy", 1, "100 %",
                     [](const ResourcePoint& point) { return point.gpu.value_or(-1); });
        std::vector<LegendEntry> entries;
        for (std::size_t i = 0; i < nodes.size() && nodes.size() <= colours; ++i)
            entries.push_back({colour_class(i), nodes[i].node});
        if (entries.empty()) entries.push_back({"mute", "each line is a node"});
        return out + legend(entries) + resources_table(nodes);
    }
    return "<p class=\"note\">There are no samples of CPU and memory of this attempt.</p>\n";
}

std::string ending(const AttemptBars& attempt, const record::Attempt& record) {
    if (attempt.open) return "runs";
    const auto by = record.ended_by.value_or(record::EndedBy::unknown);
    std::string out = fmt::format("ended by {}", base::word_of(by));
    if (record.exit_code) out += fmt::format(", exit code {}", *record.exit_code);
    return out;
}

}  // namespace

std::string attempts_section(const Findings& findings) {
    const auto& attempts = findings.attempts;
    if (attempts.empty()) return {};
    std::string out;
    std::size_t rows_left = rows_of_all_attempts;
    std::size_t shown = 0;
    // The newest first: it is the one that is asked about.
    for (std::size_t i = attempts.size(); i-- > 0;) {
        const AttemptBars& attempt = attempts[i];
        const std::size_t rows = std::min(most_attempt_rows, attempt.rows.size());
        if (shown == most_attempts || (shown > 0 && rows > rows_left)) {
            out += fmt::format(
                "<p class=\"note\">{} earlier attempts are not shown; `batchai job "
                "events --chart` shows them.</p>\n",
                i + 1);
            break;
        }
        rows_left -= std::min(rows, rows_left);
        ++shown;
        out += fmt::format("<h2>{}</h2>\n<p class=\"lead\">{} UTC, {}, {}</p>\n",
                           attempts.size() == 1 ? std::string("Phases on each node")
                                                : fmt::format("Attempt {}", attempt.number),
                           time_text(attempt.begin), duration_text(attempt.seconds()),
                           escape(ending(attempt, findings.facts.attempts[i])));
        const std::size_t bars =
            bars_of_all_rows /
            std::max<std::size_t>(1, rows * std::min(most_attempts, attempts.size()));
        out += phase_legend(attempt) + gantt(attempt, rows, std::max(bars, fewest_bars));
        out += resources(findings, attempt);
    }
    return out;
}

}  // namespace batchai::status
