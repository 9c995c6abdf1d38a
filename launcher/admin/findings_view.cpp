// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/findings_view.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <map>
#include <span>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "base/utf8.hpp"
#include "slurm/release.hpp"

namespace batchai::admin {

namespace {

using slurm::release_of;

constexpr std::array<Comparison, 5> comparison_table{{
    {"nodes.answer", "whether each node can run the check",
     "A node that cannot run \"batchai admin check\" as this user cannot run jobs of batchai "
     "either. The nodes write their answers below the directory of the user's records, so this "
     "also shows that every node sees it under the same path."},
    {"nodes.version", "whether all hosts have the same version of batchai",
     "The launcher, the plugin and batchai-node of different versions do not understand each "
     "other; a step says so and ends."},
    {"nodes.slurm", "whether all hosts have the same version of Slurm",
     "The plugin is built for one minor version."},
    {"nodes.site", "whether all hosts have the same site.lua",
     "A job is planned on one host and cleaned up on another."},
    {"nodes.clock", "whether the clocks agree",
     "Credentials of munge expire, and the times in logs and reports are compared."},
}};

constexpr std::chrono::seconds longest_skew{2};
constexpr std::size_t shown_digits = 12;  // of a digest

// One line of the text: the same finding on one or several hosts.
struct Line {
    const Finding* finding;
    std::vector<std::string_view> hosts;
};

std::vector<Line> lines_of(const std::vector<Finding>& findings) {
    std::vector<Line> lines;
    std::map<std::tuple<Severity, std::string_view, std::string_view>, std::size_t> known;
    for (const Finding& finding : findings) {
        const auto [at, is_new] =
            known.try_emplace({finding.severity, finding.id, finding.found}, lines.size());
        if (is_new) lines.push_back({&finding, {}});
        lines[at->second].hosts.push_back(finding.host);
    }
    std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
        return a.finding->severity > b.finding->severity;
    });
    return lines;
}

std::string names_of(const std::vector<std::string_view>& hosts) {
    constexpr std::size_t most = 16;
    const auto shown = std::span(hosts).first(std::min(hosts.size(), most));
    std::string names = fmt::format("{}", fmt::join(shown, ", "));
    if (hosts.size() > most) names += fmt::format(" and {} more", hosts.size() - most);
    return names;
}

std::string counted(std::ptrdiff_t count, std::string_view word) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string summary(const std::vector<Line>& lines) {
    const auto count = [&](Severity severity) {
        return std::count_if(lines.begin(), lines.end(),
                             [&](const Line& line) { return line.finding->severity == severity; });
    };
    return fmt::format("{}, {}, {} unknown, {} ok", counted(count(Severity::error), "error"),
                       counted(count(Severity::warning), "warning"), count(Severity::unknown),
                       count(Severity::ok) + count(Severity::info));
}

// What one side does not know cannot be the same.
Finding compared(std::string_view id, const HostFindings& node, std::string_view what,
                 const std::string& there, const std::string& here) {
    Finding finding{.id = std::string(id), .host = node.host};
    if (there == not_known || here == not_known) {
        finding.severity = Severity::unknown;
        finding.found =
            fmt::format("the {} is not known{}", what, here == not_known ? " on this host" : "");
    } else if (there == here) {
        finding.found = fmt::format("the same {}", what);
    } else {
        finding.severity = Severity::error;
        finding.found = fmt::format("another {} than this host has: {} instead of {}", what,
                                    there.empty() ? "none" : there, here.empty() ? "none" : here);
        finding.remedy = fmt::format("install the same {} on all hosts", what);
    }
    return finding;
}

// Slurm's patch releases work together, and a cluster that is being updated has two of them.
Finding slurm_of(const HostFindings& node, const HostFindings& ours) {
    Finding finding = compared("nodes.slurm", node, "version of Slurm", node.slurm, ours.slurm);
    const auto there = release_of(node.slurm);
    const auto here = release_of(ours.slurm);
    const bool same_minor = there && here && (*there)[0] == (*here)[0] && (*there)[1] == (*here)[1];
    if (finding.severity != Severity::error || !same_minor) return finding;
    finding.severity = Severity::info;
    finding.remedy.clear();
    finding.found =
        fmt::format("another patch release of Slurm than this host has: {} instead of {}",
                    node.slurm, ours.slurm);
    return finding;
}

Finding clock_of(const HostFindings& node, base::Time earliest, base::Time latest) {
    const bool agrees = node.time >= earliest - longest_skew && node.time <= latest + longest_skew;
    if (agrees) return {.id = "nodes.clock", .host = node.host, .found = "the clocks agree"};
    return {.id = "nodes.clock",
            .host = node.host,
            .severity = Severity::warning,
            .found = fmt::format(
                "its clock says {} between {} and {} here", base::to_iso8601_seconds(node.time),
                base::to_iso8601_seconds(earliest), base::to_iso8601_seconds(latest)),
            .remedy = "let chrony or ntpd set the clocks of all hosts"};
}

template <typename Entry>
std::string explanation_in(std::span<const Entry> checks, std::string_view id) {
    for (const Entry& check : checks) {
        if (check.id == id) return fmt::format("{}: {}\n{}\n", check.id, check.title, check.why);
    }
    return {};
}

}  // namespace

Severity worst(const std::vector<Finding>& findings) {
    Severity worst = Severity::ok;
    for (const Finding& finding : findings)
        worst = std::max(worst, finding.severity);
    return worst;
}

int exit_code(Severity worst) {
    switch (worst) {
        case Severity::ok:
        case Severity::info:
            return 0;
        case Severity::warning:
            return 1;
        case Severity::error:
            return 2;
        case Severity::unknown:
            break;
    }
    return 3;
}

std::string report_text(const HostFindings& report) {
    const std::vector<Line> lines = lines_of(report.checks);
    std::string text = fmt::format(
        "batchai {} with Slurm {}, checked on {}\n\n", report.version,
        report.slurm == not_known ? "of an unknown version" : report.slurm, report.host);
    for (const auto& [finding, hosts] : lines) {
        const bool elsewhere = hosts.size() > 1 || hosts.front() != report.host;
        text +=
            fmt::format("{:<8} {:<20} {}\n", base::word_of(finding->severity), finding->id,
                        base::printable_line((elsewhere ? names_of(hosts) + ": " : std::string()) +
                                             finding->found));
        if (finding->severity > Severity::info && !finding->remedy.empty())
            text += fmt::format("{:<30}remedy: {}\n", "", base::printable_line(finding->remedy));
    }
    return text + "\n" + summary(lines) + "\n";
}

std::span<const Comparison> comparisons() {
    return comparison_table;
}

std::vector<Finding> compare(const HostFindings& ours, const std::vector<HostFindings>& nodes,
                             base::Time earliest, base::Time latest) {
    std::vector<Finding> findings;
    for (const HostFindings& node : nodes) {
        findings.push_back({.id = "nodes.answer", .host = node.host, .found = "the check runs"});
        findings.push_back(
            compared("nodes.version", node, "version of batchai", node.version, ours.version));
        findings.push_back(slurm_of(node, ours));
        findings.push_back(compared("nodes.site", node, "site.lua",
                                    node.site_digest.substr(0, shown_digits),
                                    ours.site_digest.substr(0, shown_digits)));
        findings.push_back(clock_of(node, earliest, latest));
    }
    return findings;
}

std::string explanation(std::string_view id) {
    std::string text = explanation_in(cluster_checks(), id);
    if (text.empty()) text = explanation_in(host_checks(), id);
    if (text.empty()) text = explanation_in(comparisons(), id);
    return text;
}

std::vector<std::string_view> all_ids() {
    std::vector<std::string_view> ids;
    const auto add = [&](const auto& checks) {
        for (const auto& check : checks)
            ids.push_back(check.id);
    };
    add(cluster_checks());
    add(host_checks());
    add(comparisons());
    return ids;
}

std::vector<Finding> selected(std::vector<Finding> findings, const std::vector<std::string>& only) {
    const auto unwanted = [&](const Finding& finding) {
        return std::none_of(only.begin(), only.end(), [&](const std::string& id) {
            return finding.id == id || finding.id.starts_with(id + ".");
        });
    };
    if (!only.empty())
        findings.erase(std::remove_if(findings.begin(), findings.end(), unwanted), findings.end());
    return findings;
}

}  // namespace batchai::admin
