// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "admin/checks.hpp"
#include "admin/finding.hpp"
#include "base/record.hpp"
#include "base/timestamp.hpp"

namespace batchai::admin {

// Stands for what a host could not find out about itself.
inline constexpr std::string_view not_known = "not known";

// What `batchai admin check --json` prints, and what its runs on the nodes tell the one that has
// started them.
struct HostFindings {
    std::int64_t schema_version = 1;  // grows if a key changes its meaning
    std::string version;              // of batchai
    std::string host;
    std::string slurm;        // Slurm's version, or not_known
    base::Time time;          // on the host, when the checks were made
    std::string site_digest;  // SHA-256 of site.lua, or not_known; "" if there is no such file
    std::vector<Finding> checks;
};

// Makes all checks on the facts, and adds their findings.
template <typename Facts>
void judge_all(std::span<const Check<Facts>> checks, const Facts& facts, const std::string& host,
               std::vector<Finding>& into) {
    for (const Check<Facts>& check : checks) {
        const Judgement judgement = check.judge(facts);
        for (const NodeJudgement& of : judgement.nodes)
            into.push_back({.id = std::string(check.id),
                            .host = of.node,
                            .severity = of.severity,
                            .found = of.found,
                            .remedy = of.remedy});
        if (!judgement.nodes.empty()) continue;
        into.push_back({.id = std::string(check.id),
                        .host = host,
                        .severity = judgement.severity,
                        .found = judgement.found,
                        .remedy = judgement.remedy});
    }
}

// Returns the worst severity of all findings.
[[nodiscard]] Severity worst(const std::vector<Finding>& findings);

// Returns the exit code for it, as monitoring systems expect it: 0 for nothing to do, 1 for
// warnings, 2 for errors, 3 if the worst is that a check could not be made.
[[nodiscard]] int exit_code(Severity worst);

// Returns the report as text: the worst findings first, those of the same words on several hosts as
// one, and a summary in the last line.
[[nodiscard]] std::string report_text(const HostFindings& report);

// A check that compares what hosts have reported, or that is about their answer.
struct Comparison {
    std::string_view id;
    std::string_view title;
    std::string_view why;
};
[[nodiscard]] std::span<const Comparison> comparisons();

// Compares the reports of nodes with that of the host that has started them. `earliest` and
// `latest` are that host's times before and after the nodes made theirs.
[[nodiscard]] std::vector<Finding> compare(const HostFindings& ours,
                                           const std::vector<HostFindings>& nodes,
                                           base::Time earliest, base::Time latest);

// Returns what `--explain` prints about a check; nothing if there is no such check.
[[nodiscard]] std::string explanation(std::string_view id);

// Returns the ids of all checks, in the order of the tables.
[[nodiscard]] std::vector<std::string_view> all_ids();

// Keeps the findings of the checks that `only` names by their ids or by the part before the dot;
// all of them if `only` is empty.
[[nodiscard]] std::vector<Finding> selected(std::vector<Finding> findings,
                                            const std::vector<std::string>& only);

}  // namespace batchai::admin

template <>
struct batchai::base::RecordOf<batchai::admin::HostFindings> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("schemaVersion", &admin::HostFindings::schema_version),
                          field("version", &admin::HostFindings::version),
                          field("host", &admin::HostFindings::host),
                          field("slurm", &admin::HostFindings::slurm),
                          field("time", &admin::HostFindings::time),
                          field("siteDigest", &admin::HostFindings::site_digest),
                          field("checks", &admin::HostFindings::checks)};
    }
};
