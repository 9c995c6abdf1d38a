// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/retry.hpp"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/slurm_options.hpp"
#include "planned.hpp"

namespace batchai::plan {

namespace {

using testing::Contains;
using testing::HasSubstr;

std::string with(const std::string& retry, const std::string& more = {}) {
    return small_job(R"(, "retry": )" + retry + more);
}

// The faults of the file itself.
std::string faults_of_file(const std::string& retry) {
    const auto parsed = job::parse("{\"properties\": {" + with(retry) + "}}");
    std::string out;
    for (const auto& diagnostic : parsed.diagnostics)
        out += diagnostic.message + "\n";
    return out;
}

}  // namespace

TEST(RetryOfAJob, IsPlannedWithItsDefaults) {
    const Made made = planned(with(R"({"on": ["timeout", "75"]})"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->retry, (Retry{.on = {"timeout", "75"}, .max = 3, .in_allocation = true}));
    EXPECT_FALSE(planned(small_job()).plan->retry);
}

TEST(RetryOfAJob, LooksForProgressInASharedDirectory) {
    const Made made = planned(with(
        R"({"on": ["75"], "max": 9, "excludeFailedNodes": true,
            "stopWithoutProgress": {"directory": "$AZ_BATCHAI_OUTPUT_M/x", "attempts": 4}})",
        R"(, "outputDirectories": [{"id": "M", "pathPrefix": "/nfs", "pathSuffix": "m"}])"));
    ASSERT_TRUE(made.plan) << faults(made);
    const Retry& retry = *made.plan->retry;
    EXPECT_EQ(retry.max, 9);
    EXPECT_TRUE(retry.exclude_failed_nodes);
    EXPECT_EQ(retry.progress_directory, value_of(*made.plan, "AZ_BATCHAI_OUTPUT_M") + "/x");
    EXPECT_EQ(retry.attempts_without_progress, 4);
}

TEST(RetryOfAJob, IsRefusedWhereItCannotWork) {
    for (const char* place : {"$AZ_BATCHAI_JOB_TEMP/models", "models", "/nfs/../x"})
        EXPECT_THAT(faults(planned(with(R"({"on": ["75"], "stopWithoutProgress": {"directory": ")" +
                                        std::string(place) + R"("}})"))),
                    HasSubstr("E119 \"directory\" must be on storage that all nodes share"))
            << place;
    Inputs inputs = test_inputs();
    inputs.slurm.words = {{.name = "no-requeue"}};
    EXPECT_THAT(faults(planned(with(R"({"on": ["75"]})"), {}, inputs)),
                HasSubstr("E119 \"retry\" and --no-requeue contradict each other"));
}

TEST(RetryOfAJob, NamesKnownCauses) {
    for (const char* wrong : {"nodefailure", "0", "256", "9-7", "75-", "-75", "75-76-77", ""})
        EXPECT_THAT(faults_of_file(R"({"on": [")" + std::string(wrong) + R"("]})"),
                    HasSubstr("\"on\""))
            << wrong;
    EXPECT_THAT(faults_of_file(R"({"on": []})"), HasSubstr("\"on\" must not be empty"));
    EXPECT_THAT(faults_of_file(R"({"on": "75"})"), HasSubstr("\"on\" must be an array"));
    EXPECT_THAT(faults_of_file(R"({"on": [75]})"), HasSubstr("must be a string"));
    EXPECT_THAT(faults_of_file(R"({"max": 2})"), HasSubstr("\"on\" is missing"));
    EXPECT_EQ(faults_of_file(R"({"on": ["nodeFailure", "1-255"]})"), "");
}

TEST(RetryOfAJob, MatchesExitCodes) {
    const Retry retry{.on = {"timeout", "75", "130-140"}};
    EXPECT_TRUE(retries_on(retry, "timeout"));
    EXPECT_FALSE(retries_on(retry, "preemption"));
    EXPECT_TRUE(retries_on_exit_code(retry, 75));
    EXPECT_TRUE(retries_on_exit_code(retry, 140));
    EXPECT_FALSE(retries_on_exit_code(retry, 141));
}

TEST(CheckpointOfAJob, IsANoticeToTheBatchScript) {
    const Made made = planned(small_job(R"(, "checkpoint": {"signal": "usr2", "before": "PT5M"})"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->checkpoint, (Checkpoint{.signal = SIGUSR2, .seconds_before = 300}));
    EXPECT_THAT(sbatch_options(*made.plan), Contains("--signal=B:23@300"));
    // srun and salloc run no batch script.
    for (const Door door : {Door::srun, Door::salloc}) {
        const auto options = options_at_door(*made.plan, door, {}, "job.json");
        ASSERT_TRUE(options);
        for (const SlurmOption& option : *options)
            EXPECT_NE(option.name, "signal");
    }
}

TEST(CheckpointOfAJob, IsRefusedBesideASignalOfTheUsersOwn) {
    const std::string file = small_job(R"(, "checkpoint": {"before": "PT5M"})");
    Inputs inputs = test_inputs();
    inputs.slurm.words = {{.name = "signal", .value = "USR1@60"}};
    EXPECT_EQ(faults(planned(file, {}, inputs)),
              "E119 \"checkpoint\" and --signal contradict each other");
    const auto at_door =
        options_at_door(*planned(file).plan, Door::sbatch, {{"signal", "USR1@60"}}, "job.json");
    ASSERT_FALSE(at_door);
    EXPECT_THAT(at_door.error().text(), HasSubstr("--signal=USR1@60 contradicts job.json"));
}

TEST(CheckpointOfAJob, MustFitIntoTheTimeLimit) {
    EXPECT_THAT(faults(planned(small_job(R"(, "checkpoint": {"before": "PT10M"},
                                "constraints": {"maxWallClockTime": "PT10M"})"))),
                HasSubstr("E119 \"before\" is 600 s"));
}

TEST(CheckpointOfAJob, CanHaveTermAsItsSignal) {
    const Made made = planned(small_job(R"(, "checkpoint": {"signal": "TERM", "before": "PT5M"})"));
    ASSERT_TRUE(made.plan) << faults(made);
    EXPECT_EQ(made.plan->checkpoint->signal, SIGTERM);
    // Slurm tells the batch script, as with the other signals.
    EXPECT_THAT(sbatch_options(*made.plan), Contains("--signal=B:23@300"));
}

TEST(RetryOfAJob, IsPlannedForArrays) {
    const Made made = planned(with(R"({"on": ["75"]})", R"(, "slurm": {"array": "0-3"})"));
    EXPECT_TRUE(made.plan) << faults(made);
}

}  // namespace batchai::plan
