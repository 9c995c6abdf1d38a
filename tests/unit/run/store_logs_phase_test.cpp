// SPDX-License-Identifier: GPL-2.0-or-later
// The phase that copies the logs to remote storage, with the real rclone. The storage is a
// directory.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "tests/unit/rclone.hpp"

namespace batchai::run {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class StoreLogsPhase : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        if (batchai::test::release_lacks_rclone()) GTEST_SKIP() << "this release has no rclone";
        mount_remote_storage();
        storage().backend = "local";
        storage().path = path("storage");
        plan_.directories.plan_directory = path("job");
        plan_.directories.stdouterr = "/mounts/share/of/job";
    }

    [[nodiscard]] plan::RemoteVolume& storage() { return *plan_.mounts.front().remote; }
    [[nodiscard]] std::string stored(const std::string& name) const {
        return text_of("storage/of/job/" + name);
    }
    [[nodiscard]] std::string log() const { return text_of("logs/execution-n1.invalid.log"); }

    // A job succeeds though its logs cannot be stored, and says where they are and why.
    void expect_logs_to_stay(const std::string& reason) {
        EXPECT_EQ(attempt(), 0);
        EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 0", "logs 1"));
        EXPECT_EQ(record_.ended_by, record::EndedBy::program);
        EXPECT_FALSE(record_.failure);
        EXPECT_THAT(log(), HasSubstr("the logs stay in " + path("logs") + ": "));
        EXPECT_THAT(log(), HasSubstr(reason));
        EXPECT_FALSE(std::filesystem::exists(path("storage/of")));
    }
};

}  // namespace

TEST_F(StoreLogsPhase, StoresTheLogsOnceTheyAreComplete) {
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 0", "logs 0"));
    EXPECT_THAT(stored("execution-n1.invalid.log"), HasSubstr("has ended with exit code 0\n"));
    EXPECT_THAT(stored("execution-n2.invalid.log"), HasSubstr("has ended with exit code 0\n"));
}

TEST_F(StoreLogsPhase, StoresThemHoweverTheAttemptEnded) {
    steps_.answer(0);
    answer_of_rank_1("KeyError: 'a'\n", 3,
                     "srun: error: n2.invalid: task 1: Exited with exit code 3\n");
    EXPECT_EQ(attempt(), 3);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "wire-up 0", "ranks 3", "logs 0"));
    EXPECT_EQ(record_.failure->phase, "ranks");
    EXPECT_EQ(record_.failure->rank, 1);
    EXPECT_THAT(stored("stderr.txt"), HasSubstr("KeyError: 'a'\n"));

    plan_.container.emplace().root = path("gone.sqsh");
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "image 1", "logs 0"));
    EXPECT_EQ(record_.failure->phase, "image");
    EXPECT_THAT(stored("execution-n1.invalid.log"), HasSubstr("the image is not available"));
}

// After the ranks, a node may trace for as long as it stores what they have written.
TEST_F(StoreLogsPhase, StoresWhatTheNodesTracedLast) {
    steps_.while_waiting = [this]() -> std::optional<int> {
        append("job/node/n2.invalid.log", "all data are stored\n");
        return std::nullopt;
    };
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(stored("execution-n2.invalid.log"), HasSubstr("all data are stored\n"));
}

TEST_F(StoreLogsPhase, LogsThatTheStorageRefusesStay) {
    append("storage", "a file where the directory should be");
    expect_logs_to_stay("not a directory");
}

TEST_F(StoreLogsPhase, LogsStayWithoutTheStoragesCredential) {
    storage().secret_option = "key";
    storage().credentials_file = path("no-key");
    expect_logs_to_stay(path("no-key"));
}

}  // namespace batchai::run
