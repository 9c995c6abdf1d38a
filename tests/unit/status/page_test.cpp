// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/page/page.hpp"

#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "facts.hpp"
#include "status/history/numbers.hpp"
#include "status/page/html.hpp"

namespace batchai::status {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t two_megabytes = 2000000;

std::string page(const Facts& facts) {
    return page_of(judge(facts));
}

TEST(Html, EscapesMarkupAndWhatCannotBeSeen) {
    EXPECT_EQ(escape("<a href=\"x\" title='y'>&"),
              "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;");
    EXPECT_EQ(escape("a\x01\x1b[31m\n\xff\u202e"), "a\uFFFD\uFFFD[31m\uFFFD\uFFFD\uFFFD");
    EXPECT_EQ(escape("</script><!--", 9), "&lt;/script&gt; …");
    EXPECT_LE(escape(std::string(1U << 20U, 'x')).size(), 2100U);
}

TEST(Html, AllowsItsOwnStyleOnly) {
    // As `printf abc | openssl dgst -sha256 -binary | base64` has it.
    EXPECT_EQ(policy_hash("abc"), "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='");
}

TEST(Page, NeedsNothingElse) {
    const std::string text = page(trained());
    EXPECT_THAT(text, HasSubstr("default-src 'none'; style-src 'sha256-"));
    for (const char* const word : {"<script", "<img", "<link", "<iframe", "http:", "https:", "url(",
                                   "@import", "javascript:", " style=", " on"})
        EXPECT_THAT(std::regex_replace(text, std::regex(">[^<]*<"), "><"), Not(HasSubstr(word)))
            << word;
}

// Every element that is opened is closed, in order.
void expect_well_formed(const std::string& text) {
    std::vector<std::string> open;
    const std::regex tag("<(/?)([a-z0-9]+)((?:[^<>\"]|\"[^\"]*\")*)>");
    const std::string body =
        text.substr(text.find("<body>"), text.find("</html>") - text.find("<body>"));
    for (auto found = std::sregex_iterator(body.begin(), body.end(), tag);
         found != std::sregex_iterator(); ++found) {
        const std::string name = (*found)[2];
        if ((*found)[3].str().ends_with('/')) continue;
        if ((*found)[1].length() == 0) {
            open.push_back(name);
            continue;
        }
        ASSERT_FALSE(open.empty()) << name;
        ASSERT_EQ(open.back(), name);
        open.pop_back();
    }
    EXPECT_TRUE(open.empty());
}

TEST(Page, ShowsTheJobAndItsFirstFailure) {
    Facts facts = trained();
    facts.job.state = "failed";
    facts.attempts[0].failure = record::Failure{.code = "JobFailed",
                                                .message = "Job failed with non-zero exit code",
                                                .phase = "ranks",
                                                .node = "h3",
                                                .rank = 2,
                                                .signal = {},
                                                .exit_code = 3,
                                                .first_error_line = "KeyError: 'loss'"};
    const std::string text = page(facts);
    EXPECT_THAT(text, HasSubstr("<h1>train</h1>"));
    EXPECT_THAT(text, HasSubstr("on rank 2 on node h3 in the phase ranks, with exit code 3"));
    EXPECT_THAT(text, HasSubstr("<code>KeyError: &#39;loss&#39;</code>"));
    EXPECT_THAT(text, HasSubstr("Preparation took 40 % of attempt 1"));
    EXPECT_THAT(text, HasSubstr("<title>preparation: 38 s</title>"));
}

TEST(Page, CannotBeHarmedByWhatTheRecordsHave) {
    const std::string evil =
        "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'\x1b\xff";
    Facts facts = trained();
    facts.job.name = facts.job.error_message = facts.job.error_code = facts.job.state = evil;
    facts.job.why_it_waits = facts.job.slurm_job_id = facts.job.ended_by = evil;
    facts.asked.tool = facts.asked.command = facts.asked.image = evil;
    record::Attempt& attempt = facts.attempts[0];
    attempt.nodes[1] = evil;
    attempt.phases[1].name = evil;
    attempt.failure = record::Failure{.code = evil,
                                      .message = evil,
                                      .phase = evil,
                                      .node = evil,
                                      .rank = -5,
                                      .signal = {},
                                      .exit_code = {},
                                      .first_error_line = std::string(1U << 20U, '<') + evil};
    attempt.retried = record::Retried{.queued = true, .message = evil};
    facts.failures = {{.code = evil, .text = evil, .node = evil}};
    facts.timelines.asked_for = true;
    facts.timelines.ranks = {rank_of_steps(0, 40, 0.05, 0.1), rank_of_steps(1, 40, 0.09, 0.1)};
    facts.timelines.ranks[0].host = facts.timelines.ranks[1].host = evil;
    record::NodeUsage usage{.step = "1", .number = 1, .node = evil, .head = {}, .samples = {}};
    usage.head.start = at(43);
    usage.samples = {{.time = at(50), .cpu_seconds = 1e12, .memory = 1LL << 60},
                     {.time = at(-1e6), .cpu_seconds = 0}};
    facts.usage = {{1, {usage}}};
    const std::string text = page(facts);
    EXPECT_THAT(text, Not(HasSubstr("<script")));
    EXPECT_THAT(text, Not(HasSubstr("<img")));
    EXPECT_THAT(text, Not(HasSubstr("\x1b")));
    EXPECT_THAT(text, Not(HasSubstr("nan")));
    expect_well_formed(text);
    EXPECT_TRUE(base::parse_json(base::format_json(numbers_of(judge(facts))), "numbers"));
}

TEST(Page, IsWellFormed) {
    expect_well_formed(page(trained()));
    expect_well_formed(page(Facts{}));
}

// 64 ranks on 64 nodes, a day of samples, and a job that was run again often.
Facts large() {
    Facts facts = trained();
    facts.attempts.clear();
    constexpr int nodes = 64;
    for (int number = 1; number <= 30; ++number) {
        record::Attempt attempt = trained().attempts[0];
        attempt.number = number;
        attempt.nodes.clear();
        for (int node = 0; node < nodes; ++node)
            attempt.nodes.push_back(fmt::format("node-{:03}.rack-7", node));
        attempt.start = at(86400.0 * number);
        attempt.end = at(86400.0 * (number + 1));
        attempt.phases = {phase("outputs", 86400.0 * number, 86400.0 * number + 5),
                          phase("preparation", 86400.0 * number + 5, 86400.0 * number + 2000),
                          phase("ranks", 86400.0 * number + 2000, 86400.0 * (number + 1))};
        std::vector<record::NodeUsage> usage;
        for (const std::string& node : attempt.nodes) {
            record::NodeUsage one{.step = std::to_string(number),
                                  .number = 3,
                                  .node = node,
                                  .head = {},
                                  .samples = {}};
            one.head = {.start = attempt.start, .interval = 60, .cpus = 64, .memory = 1LL << 38};
            for (int i = 0; i < 1440; ++i)
                one.samples.push_back({.time = attempt.start + std::chrono::minutes(i),
                                       .cpu_seconds = 3600.0 * i,
                                       .memory = (i % 100) * (1LL << 30),
                                       .peak = 100LL << 30,
                                       .gpus = {{.index = 0, .busy = i % 100}}});
            usage.push_back(std::move(one));
        }
        if (number > 28) facts.usage.emplace_back(number, std::move(usage));
        // An elastic job that has started its ranks often.
        for (int i = 0; number == 30 && i < 1000; ++i)
            attempt.phases.push_back(
                phase("wire-up", 86400.0 * number + i, 86400.0 * number + i + 1));
        facts.attempts.push_back(std::move(attempt));
    }
    for (int rank = 0; rank < nodes; ++rank)
        facts.timelines.ranks.push_back(rank_of_steps(rank, 5000, rank == 7 ? 0.09 : 0.05, 0.1));
    return facts;
}

// Breaks when the page of a large job cannot be sent by mail.
TEST(Page, OfALargeJobIsSmall) {
    const std::string text = page(large());
    EXPECT_LT(text.size(), two_megabytes);
    EXPECT_THAT(text, HasSubstr("earlier attempts are not shown"));
    EXPECT_THAT(text, HasSubstr("longest phases of each node are drawn"));
}

}  // namespace
}  // namespace batchai::status
