// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/notify/webhook.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "run/phases/software.hpp"

namespace batchai::run {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

record::Attempt failed_attempt() {
    record::Attempt attempt;
    attempt.number = 2;
    attempt.slurm_job_id = "77";
    attempt.start = base::now();
    attempt.end = attempt.start + std::chrono::seconds(61);
    attempt.exit_code = 9;
    attempt.ended_by = record::EndedBy::program;
    attempt.failure = record::Failure{.code = "JobFailed",
                                      .message = "Job failed",
                                      .phase = "ranks",
                                      .node = "h2",
                                      .rank = 3,
                                      .first_error_line = "a \"b\" \\ <!channel>\n\xff"};
    return attempt;
}

plan::Plan plan_of(bool text_only) {
    plan::Plan plan;
    plan.identity.job = "train";
    plan.webhook = plan::Webhook{.text_only = text_only};
    return plan;
}

}  // namespace

TEST(WebhookBody, HasASentenceAndTheFacts) {
    const auto body = base::parse_json(webhook_body(plan_of(false), failed_attempt()), "body");
    ASSERT_TRUE(body);
    EXPECT_THAT(*(*body)["text"].string(),
                HasSubstr("Job train (Slurm job 77) has failed after 61 s, in attempt 2, with exit "
                          "code 9: Job failed; rank 3 on h2: a \"b\" \\ &lt;!channel&gt;"));
    EXPECT_EQ(*(*body)["exitCode"].integer(), 9);
    EXPECT_EQ(*(*body)["durationSeconds"].integer(), 61);
    EXPECT_EQ(*(*body)["failure"]["rank"].integer(), 3);
    EXPECT_EQ(*(*body)["endedBy"].string(), "program");
}

TEST(WebhookBody, IsTheSentenceAloneForChats) {
    record::Attempt attempt = failed_attempt();
    attempt.exit_code = 0;
    attempt.failure.reset();
    const auto body = base::parse_json(webhook_body(plan_of(true), attempt), "body");
    ASSERT_TRUE(body);
    ASSERT_EQ(body->object()->size(), 1U);
    EXPECT_EQ(*(*body)["text"].string(),
              "Job train (Slurm job 77) has succeeded after 61 s, in attempt 2");
}

TEST(AlarmBody, NamesTheRankAndItsPlace) {
    const record::Alarm alarm{.time = base::now(),
                              .message = "the ranks have printed nothing",
                              .node = "h2",
                              .rank = 3,
                              .where = "at train.py:8 in <lambda>()"};
    const auto body = base::parse_json(alarm_body(plan_of(false), "77", 2, alarm), "body");
    ASSERT_TRUE(body);
    EXPECT_EQ(*(*body)["text"].string(),
              "Job train (Slurm job 77) raises an alarm: the ranks have printed nothing, waiting "
              "for rank 3 on h2: at train.py:8 in &lt;lambda&gt;()");
    EXPECT_EQ(*(*body)["state"].string(), "running");
    EXPECT_EQ(*(*body)["alarm"]["rank"].integer(), 3);
    const auto text = base::parse_json(alarm_body(plan_of(true), "77", 2, alarm), "body");
    ASSERT_TRUE(text);
    EXPECT_EQ(text->object()->size(), 1U);
}

TEST(CurlConfiguration, QuotesWhatItIsGiven) {
    const std::string config = curl_config("https://h/x", "{\"a\": \"b\\\\\"}\n", false);
    EXPECT_THAT(config, HasSubstr("url = \"https://h/x\"\n"));
    EXPECT_THAT(config, HasSubstr(R"(data-raw = "{\"a\": \"b\\\\\"}\n")"));
    EXPECT_THAT(config, HasSubstr("proto = \"=https\"\n"));
    EXPECT_THAT(curl_config("http://h", "", true), HasSubstr("proto = \"=http,https\"\n"));
}

TEST(SoftwareWords, ArePairsInTheOrderOfTheirEffect) {
    const plan::Software software{.modules = {"b", "a"},
                                  .module_paths = {"/m"},
                                  .purge = true,
                                  .uv_project = "/p",
                                  .uv_extras = {"gpu"}};
    EXPECT_THAT(software_words(software, {"TOKEN"}),
                ElementsAre("secret", "TOKEN", "purge", "all", "module-path", "/m", "module", "b",
                            "module", "a", "uv", "/p", "uv-extra", "gpu"));
}

TEST(SoftwareInUse, RemarksOnNodesThatDiffer) {
    record::SoftwareReport first;
    first.facts.modules = {"cuda/12.4"};
    first.facts.python_version = "3.11.2";
    record::SoftwareReport other = first;
    other.facts.python_version = "3.9.1";
    const record::Software software =
        software_in_use({{"h1", first}, {"h2", other}, {"h3", first}});
    EXPECT_EQ(software.python_version, "3.11.2");
    EXPECT_THAT(software.remarks,
                ElementsAre("h2: the version of Python is 3.9.1, on h1 it is 3.11.2"));
}

}  // namespace batchai::run
