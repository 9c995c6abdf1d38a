// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/findings_view.hpp"

#include <chrono>
#include <fstream>
#include <iterator>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::admin {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const base::Time noon = *base::from_iso8601("2026-01-01T12:00:00");

HostFindings report(std::string host) {
    return {.version = "1.0",
            .host = std::move(host),
            .slurm = "22.05.8",
            .time = noon,
            .site_digest = "aaaaaaaaaaaaaaaa",
            .checks = {}};
}

Finding finding(std::string id, std::string host, Severity severity, std::string found) {
    return {.id = std::move(id),
            .host = std::move(host),
            .severity = severity,
            .found = std::move(found),
            .remedy = "mend it"};
}

TEST(HostFindings, SurvivesBeingWrittenAndRead) {
    HostFindings ours = report("n1");
    ours.checks.push_back(finding("a.b", "n1", Severity::warning, "x"));
    const auto read = base::from_value<HostFindings>(base::to_value(ours));
    ASSERT_TRUE(read) << read.error().text();
    EXPECT_EQ(read->checks, ours.checks);
    EXPECT_EQ(read->time, ours.time);
}

TEST(HostFindings, PrintsTheWorstFirstAndTheSameOnSeveralHostsOnce) {
    HostFindings ours = report("login");
    ours.checks = {finding("a.ok", "login", Severity::ok, "fine"),
                   finding("b.bad", "n1", Severity::error, "broken"),
                   finding("b.bad", "n2", Severity::error, "broken"),
                   finding("c.warn", "n1", Severity::warning, "odd")};
    EXPECT_EQ(report_text(ours),
              "batchai 1.0 with Slurm 22.05.8, checked on login\n"
              "\n"
              "error    b.bad                n1, n2: broken\n"
              "                              remedy: mend it\n"
              "warning  c.warn               n1: odd\n"
              "                              remedy: mend it\n"
              "ok       a.ok                 fine\n"
              "\n"
              "1 error, 1 warning, 0 unknown, 1 ok\n");
}

TEST(HostFindings, ItsExitCodeIsThatOfMonitoring) {
    EXPECT_EQ(exit_code(Severity::ok), 0);
    EXPECT_EQ(exit_code(Severity::info), 0);
    EXPECT_EQ(exit_code(Severity::warning), 1);
    EXPECT_EQ(exit_code(Severity::error), 2);
    EXPECT_EQ(exit_code(Severity::unknown), 3);
    EXPECT_EQ(
        worst({finding("a", "n", Severity::unknown, ""), finding("b", "n", Severity::warning, "")}),
        Severity::warning);
}

TEST(HostFindings, AGroupSelectsItsChecksAndNoOthers) {
    const std::vector<Finding> all{finding("plugin.line", "n", Severity::ok, ""),
                                   finding("plugins.x", "n", Severity::ok, ""),
                                   finding("site.file", "n", Severity::ok, "")};
    EXPECT_THAT(selected(all, {}), SizeIs(3));
    EXPECT_THAT(selected(all, {"plugin"}), SizeIs(1));
    EXPECT_THAT(selected(all, {"site.file", "plugin"}), SizeIs(2));
}

Severity of(const std::vector<Finding>& findings, std::string_view id) {
    for (const Finding& finding : findings) {
        if (finding.id == id) return finding.severity;
    }
    ADD_FAILURE() << "there is no " << id;
    return Severity::unknown;
}

// The page is written from the tables of the code.
TEST(Documentation, HasARowForEachCheck) {
    std::ifstream file(DOCUMENTATION);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    ASSERT_THAT(page, HasSubstr("# Checking an installation"));
    const auto expect_rows = [&](const auto& checks) {
        for (const auto& check : checks)
            EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` | {} | {} |", check.id, check.title,
                                                    check.why)));
    };
    expect_rows(cluster_checks());
    expect_rows(host_checks());
    expect_rows(comparisons());
}

TEST(Compare, FindsNothingBetweenEqualHosts) {
    const auto findings = compare(report("login"), {report("n1")}, noon, noon);
    EXPECT_EQ(worst(findings), Severity::ok);
    EXPECT_THAT(findings, SizeIs(5));
}

TEST(Compare, FindsEachDifference) {
    HostFindings other = report("n1");
    other.version = "0.9";
    other.slurm = "24.11.5";
    other.site_digest = "";
    other.time = noon + seconds(3);
    const auto findings = compare(report("login"), {other}, noon, noon);
    EXPECT_EQ(of(findings, "nodes.version"), Severity::error);
    EXPECT_EQ(of(findings, "nodes.slurm"), Severity::error);
    EXPECT_EQ(of(findings, "nodes.site"), Severity::error);
    EXPECT_EQ(of(findings, "nodes.clock"), Severity::warning);
}

TEST(Compare, TakesPatchReleasesOfSlurmForCompatible) {
    HostFindings other = report("n1");
    other.slurm = "22.05.9";
    const auto findings = compare(report("login"), {other}, noon, noon);
    EXPECT_EQ(of(findings, "nodes.slurm"), Severity::info);
}

TEST(Compare, WhatIsNotKnownIsNotTheSame) {
    HostFindings ours = report("login");
    HostFindings node = report("n1");
    ours.slurm = node.slurm = std::string(not_known);
    ours.site_digest = node.site_digest = std::string(not_known);
    const auto findings = compare(ours, {node}, noon, noon);
    EXPECT_EQ(of(findings, "nodes.slurm"), Severity::unknown);
    EXPECT_EQ(of(findings, "nodes.site"), Severity::unknown);
}

TEST(HostFindings, TextOfOthersCannotChangeTheTerminal) {
    HostFindings ours = report("n1");
    ours.checks = {finding("a.b", "n1", Severity::ok, "two\nlines and \x1b]0;title\x07")};
    const std::string text = report_text(ours);
    EXPECT_THAT(text, HasSubstr("two lines and \uFFFD]0;title\uFFFD"));
}

TEST(HostFindings, NamesOfManyHostsAreCutOff) {
    HostFindings ours = report("login");
    for (int i = 0; i < 20; ++i)
        ours.checks.push_back(finding("a.b", fmt::format("n{}", i), Severity::ok, "fine"));
    EXPECT_THAT(report_text(ours), HasSubstr("n14, n15 and 4 more: fine"));
}

TEST(Compare, AllowsTheTimeThatTheNodesTook) {
    HostFindings slow = report("n1");
    slow.time = noon + seconds(20);
    const auto findings = compare(report("login"), {slow}, noon, noon + seconds(20));
    EXPECT_EQ(of(findings, "nodes.clock"), Severity::ok);
}

}  // namespace
}  // namespace batchai::admin
