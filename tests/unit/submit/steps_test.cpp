// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/steps.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "plan/plan_file.hpp"
#include "record/job_files.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::submit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Steps : public testing::Test {
  protected:
    Steps() { setenv("XDG_CONFIG_HOME", scratch_.path().c_str(), 1); }

    // A submission for which the job file was read.
    Submission read(Goal goal, std::string_view more) {
        return {.store = store_,
                .site = site_,
                .slurm = slurm_,
                .goal = goal,
                .options = {.path = (scratch_.path() / "job.json").string()},
                .text = {"job.json", fmt::format(R"({{"properties": {{"nodeCount": 1,
"stdOutErrPathPrefix": "{}", "customMpiSettings": {{"commandLine": "true"}}
{}}}}})",
                                                 scratch_.path().string(), more)}};
    }
    static std::string faults(const Submission& submission) {
        std::string out;
        for (const auto& fault : submission.diagnostics) {
            if (fault.severity == job::Severity::error)
                out += fmt::format("{}:{} {}\n", fault.position.line, fault.code, fault.message);
        }
        return out;
    }

    Scratch scratch_;
    store::Store store_{scratch_.path() / "home"};
    site::Site site_;
    slurm::Client slurm_;
};

constexpr std::string_view of_registry =
    R"(, "containerSettings":
{"imageSourceRegistry": {"image": "r.x/i:1"}})";

// The steps that a test does not look at, up to and without resolve_image().
void begin(Submission& submission) {
    ASSERT_TRUE(name_job(submission));
    parse_text(submission, submission.text);
    ASSERT_TRUE(add_defaults(submission));
    ASSERT_TRUE(find_cluster(submission));
    ASSERT_TRUE(read_secrets(submission));
    ASSERT_TRUE(submission.is_sound()) << messages(submission);
}

TEST_F(Steps, ReadTheSecretsIntoTheSubmission) {
    setenv("SECRET_OF_STEPS", "hush", 1);
    Submission made = read(Goal::frozen, R"(, "secrets": [
{"name": "A", "fromEnv": "SECRET_OF_STEPS"}, {"name": "B", "fromEnv": "SECRET_OF_STEPS"}])");
    begin(made);
    EXPECT_EQ(made.spec.secrets[0].value, "hush");
    EXPECT_EQ(made.spec.secrets[1].value, "hush");
    EXPECT_THAT(made.secret_variables, ElementsAre("SECRET_OF_STEPS"));
    EXPECT_EQ(std::getenv("SECRET_OF_STEPS"), nullptr);
}

TEST_F(Steps, LeaveTheSecretsAloneInAFileThatIsOnlyChecked) {
    setenv("SECRET_OF_STEPS", "hush", 1);
    Submission made =
        read(Goal::checked, R"(, "secrets": [{"name": "A", "fromEnv": "SECRET_OF_STEPS"}])");
    begin(made);
    EXPECT_FALSE(made.spec.secrets[0].value);
    EXPECT_THAT(made.secret_variables, ElementsAre("SECRET_OF_STEPS"));
    EXPECT_STREQ(std::getenv("SECRET_OF_STEPS"), "hush");
    unsetenv("SECRET_OF_STEPS");
}

// Breaks when a job in a container is planned before its image is known, and then again.
TEST_F(Steps, PlanAJobOnceWithTheImageThatWasFound) {
    Submission made = read(Goal::frozen, fmt::format("{},\n{}", of_registry, R"(
"environmentVariables": [{"name": "LIBRARIES", "value": "$OF_THE_IMAGE/lib"}])"));
    begin(made);
    made.image = image::Resolved{.frozen = {}, .notices = {"the image is old"}};
    made.image->frozen.digest = "sha256:1";
    made.image->frozen.environment = {{"OF_THE_IMAGE", "/opt"}};
    ASSERT_TRUE(make_plan(made));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->container->digest, "sha256:1");
    const auto& variables = made.plan->environment;
    EXPECT_THAT(variables, testing::Contains(plan::Variable{"LIBRARIES", "/opt/lib"}));
    EXPECT_THAT(made.plan->notices, testing::Contains("the image is old"));
}

TEST_F(Steps, SayAtItsPlaceThatAnImageIsNotThere) {
    Submission made = read(Goal::submitted, of_registry);
    begin(made);
    made.no_image = base::Error{.what = "there is no such image",
                                .where = "r.x/i:1",
                                .hint = {},
                                .exit_code = base::ExitCode::not_found};
    ASSERT_TRUE(make_plan(made));
    EXPECT_FALSE(made.plan);
    EXPECT_EQ(faults(made), "4:E114 r.x/i:1: there is no such image\n");
}

TEST_F(Steps, SayWhatThePlannerRefusesBeforeWhatTheRegistryDoes) {
    Submission made = read(Goal::submitted, of_registry);
    begin(made);
    made.spec.node_count = 3;
    site_.policy.limits.nodes = 2;
    made.no_image = base::Error{.what = "cannot be reached"};
    ASSERT_TRUE(make_plan(made));
    EXPECT_THAT(faults(made), HasSubstr("E117"));
    EXPECT_THAT(faults(made), testing::Not(HasSubstr("cannot be reached")));
}

TEST_F(Steps, FailIfTheNetworkDoesNotAnswer) {
    Submission made = read(Goal::submitted, of_registry);
    begin(made);
    made.no_image = base::Error{.what = "cannot be reached", .where = "r.x"};
    const auto planned = make_plan(made);
    ASSERT_FALSE(planned);
    EXPECT_EQ(planned.error().text(), "r.x: cannot be reached");
    EXPECT_TRUE(made.is_sound());
}

// Breaks when a registry gets to know of an image that the site does not allow.
TEST_F(Steps, DoNotAskForAnImageThatThePlannerRefuses) {
    site_.policy.images = {"allowed.x/*"};
    Submission made = read(Goal::submitted, of_registry);
    begin(made);
    ASSERT_TRUE(resolve_image(made));
    EXPECT_FALSE(made.image);
    EXPECT_FALSE(made.no_image);
    ASSERT_TRUE(make_plan(made));
    EXPECT_EQ(faults(made), "4:E117 this site does not allow the image r.x/i:1\n");
}

TEST_F(Steps, ShowAJobWithoutAskingARegistry) {
    Submission made = read(Goal::shown, of_registry);
    begin(made);
    ASSERT_TRUE(resolve_image(made));
    EXPECT_FALSE(made.image);
    EXPECT_FALSE(made.no_image);
    ASSERT_TRUE(make_plan(made));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->container->digest, "resolved at submission");
    EXPECT_EQ(made.identity.uuid, "00000000-0000-0000-0000-000000000000");
}

TEST_F(Steps, TakeTheImageOfTheCommandLineAndRefuseABadName) {
    Submission made = read(Goal::checked, of_registry);
    made.options.job_image = "r.y/other:2";
    begin(made);
    ASSERT_TRUE(resolve_image(made));
    EXPECT_EQ(made.spec.container_settings->image, "r.y/other:2");
    made.options.job_image = "r.x#i";
    const auto refused = resolve_image(made);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().where, "--job-image");
    EXPECT_EQ(refused.error().exit_code, base::ExitCode::usage);
}

TEST_F(Steps, FreezeAPlanInADirectoryOfItsOwn) {
    setenv("SECRET_OF_STEPS", "hush", 1);
    Submission made =
        read(Goal::frozen, R"(, "secrets": [{"name": "A", "fromEnv": "SECRET_OF_STEPS"}])");
    std::ofstream(made.options.path) << made.text.text;
    ASSERT_TRUE(prepare(made));
    ASSERT_TRUE(made.is_sound()) << messages(made);
    EXPECT_FALSE(std::filesystem::exists(made.directory));
    ASSERT_TRUE(carry_out(made));
    const record::JobFiles files(made.directory);
    EXPECT_TRUE(plan::read_plan(files.plan().string(), made.digest, {}));
    EXPECT_EQ(made.json.find("hush"), std::string::npos);
    EXPECT_THAT(base::read_file(files.secrets()).value(), HasSubstr("hush"));
    EXPECT_EQ(std::filesystem::status(files.secrets()).permissions(),
              std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(Steps, EndWithTheFirstThatFindsAFault) {
    unsetenv("NOT_SET");
    Submission made = read(Goal::frozen, fmt::format("{},\n{}", of_registry, R"(
"secrets": [{"name": "A", "fromEnv": "NOT_SET"}])"));
    std::ofstream(made.options.path) << made.text.text;
    ASSERT_TRUE(prepare(made));
    EXPECT_FALSE(made.is_sound());
    EXPECT_THAT(messages(made), HasSubstr("E118"));
    EXPECT_FALSE(made.no_image) << "the registry was asked";
    EXPECT_FALSE(made.plan);
}

// A second run of the same file works, and a name that was given is not changed.
TEST_F(Steps, NumberANameThatIsTaken) {
    ASSERT_TRUE(user::ensure_experiment(store_, site_, {}));
    Submission first = read(Goal::submitted, "");
    ASSERT_TRUE(name_job(first));
    EXPECT_EQ(first.identity.job, "job");
    auto reservation = store_.reserve(
        first.key(), [](const record::JobFiles&) -> base::Result<void> { return {}; });
    ASSERT_TRUE(reservation);
    store::Job job;
    job.key = first.key();
    ASSERT_TRUE(reservation->commit(job));
    Submission second = read(Goal::submitted, "");
    ASSERT_TRUE(name_job(second));
    EXPECT_EQ(second.identity.job, "job-2");
    Submission named = read(Goal::submitted, "");
    named.name = "job";
    const auto refused = name_job(named);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("already exists"));
}

}  // namespace
}  // namespace batchai::submit
