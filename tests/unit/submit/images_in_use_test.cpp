// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/images_in_use.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/timestamp.hpp"
#include "plan/plan_file.hpp"
#include "record/job_files.hpp"
#include "store/store.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::submit {
namespace {

namespace fs = std::filesystem;
using testing::UnorderedElementsAre;

std::string digest(char digit) {
    return "sha256:" + std::string(64, digit);
}

// Slurm is two scripts, which print the files "queue" and "accounts".
class ImagesInUse : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directories(scratch_.path() / "bin");
        script("squeue", "cat '" + (scratch_.path() / "queue").string() + "'");
        script("sacct", "cat '" + (scratch_.path() / "accounts").string() + "'");
        write(scratch_.path() / "queue", "");
        write(scratch_.path() / "accounts", "");
        old_path_ = std::getenv("PATH");
        setenv("PATH", (scratch_.path().string() + "/bin:" + old_path_).c_str(), 1);
        const auto now = base::now();
        ASSERT_TRUE(store_.create(store::Group{{"g"}, "here", {}, now}));
        ASSERT_TRUE(store_.create(store::Workspace{{"g", "w"}, "here", {}, now}));
        ASSERT_TRUE(store_.create(store::Experiment{{"g", "w", "e"}, now}));
    }
    void TearDown() override { setenv("PATH", old_path_.c_str(), 1); }

    static void write(const fs::path& path, const std::string& text) {
        std::ofstream(path, std::ios::trunc) << text;
    }
    void script(const std::string& name, const std::string& command) const {
        const fs::path path = scratch_.path() / "bin" / name;
        write(path, "#!/bin/sh\n" + command + "\n");
        fs::permissions(path, fs::perms::owner_all);
    }
    // A line of squeue about a task of an array; `id` is the task's own.
    static std::string task(const std::string& id, const std::string& state,
                            const std::string& array, int number) {
        constexpr auto time = "2026-11-21T05:12:01";
        return fmt::format("{}|{}|None|main|ada|0|{}|{}|{}|{}|0|n1|{}|{}|\n", id, state, time, time,
                           time, time, array, number);
    }
    static std::string job(const std::string& id, const std::string& state) {
        constexpr auto time = "2026-11-21T05:12:01";
        return fmt::format("{}|{}|None|main|ada|0|{}|{}|{}|{}|0|n1|N/A|N/A|\n", id, state, time,
                           time, time, time);
    }
    void slurm_says(const std::string& queue) const { write(scratch_.path() / "queue", queue); }

    static std::string plan_with(char image) {
        plan::Plan plan;
        plan.container.emplace().digest = digest(image);
        return plan::to_json(plan);
    }
    store::Job add(const std::string& name, const std::string& slurm_id, char image,
                   const std::string& array = {}) {
        auto reserved =
            store_.reserve({"g", "w", "e", name},
                           [](const record::JobFiles& /*files*/) { return base::Result<void>(); });
        EXPECT_TRUE(reserved) << reserved.error().text();
        write(reserved->files().plan(), plan_with(image));
        store::Job job;
        job.key = {"g", "w", "e", name};
        job.slurm_job_id = slurm_id;
        job.is_array = !array.empty();
        job.array = array;
        job.creation_time = base::now();
        EXPECT_TRUE(reserved->commit(job));
        return job;
    }
    [[nodiscard]] std::set<std::string> in_use() const {
        const auto found = images_in_use(store_, slurm_);
        EXPECT_TRUE(found) << found.error().text();
        return found.value_or(std::set<std::string>());
    }

    Scratch scratch_;
    store::Store store_{scratch_.path() / "home"};
    slurm::Client slurm_;
    std::string old_path_;
};

TEST_F(ImagesInUse, AreThoseOfJobsThatHaveNotEnded) {
    add("waits", "11", 'a');
    add("has-ended", "12", 'b');
    add("runs", "13", 'c');
    slurm_says(job("11", "PENDING") + job("12", "COMPLETED") + job("13", "RUNNING"));
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('a'), digest('c')));
}

// Breaks when the task that has the array's own id, which is the last, speaks for the others.
TEST_F(ImagesInUse, AreThoseOfArraysOfWhichAnyTaskHasNotEnded) {
    add("sweep", "20", 'a', "1-3");
    slurm_says(task("20", "COMPLETED", "20", 3) + task("21", "COMPLETED", "20", 1) +
               task("22", "RUNNING", "20", 2));
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('a')));
    slurm_says(task("20", "COMPLETED", "20", 3) + task("21", "COMPLETED", "20", 1) +
               task("22", "FAILED", "20", 2));
    EXPECT_THAT(in_use(), UnorderedElementsAre());
}

// Breaks when only the first array of a job is looked at, not those of `job resume`.
TEST_F(ImagesInUse, AreThoseOfTasksThatWereQueuedAgain) {
    const store::Job sweep = add("sweep", "20", 'a', "1-2");
    ASSERT_TRUE(store_.update<store::Job>(sweep.key, [](store::Job& job) {
        job.array_runs.push_back({.slurm_job_id = "30", .tasks = "1", .attempts_before = 1});
    }));
    slurm_says(task("20", "COMPLETED", "20", 2) + task("21", "FAILED", "20", 1) +
               task("30", "RUNNING", "30", 1));
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('a')));
}

// Breaks when what cannot be read counts as what has ended.
TEST_F(ImagesInUse, AreThoseOfJobsWhoseRecordsCannotBeRead) {
    const store::Job later = add("of-a-later-version", "20", 'a');
    add("has-ended", "12", 'b');
    slurm_says(job("12", "COMPLETED") + job("20", "RUNNING"));
    write(store_.job_files(later.key).record(), "{}");
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('a')));
    write(store_.job_files(later.key).plan(),
          R"({"schema": "batchai-plan/v99", "new": 1, "container": {"digest": ")" + digest('c') +
              R"("}})");
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('c')));
    // Which image it is can no longer be told.
    write(store_.job_files(later.key).plan(), "{}");
    EXPECT_FALSE(images_in_use(store_, slurm_));
}

// Breaks when plans that were handed over count as none where they cannot be listed.
TEST_F(ImagesInUse, AreNotKnownWithoutThePlansThatWereHandedOver) {
    EXPECT_TRUE(in_use().empty());
    write(store_.home() / "hand-over", "not a directory");
    testing::internal::CaptureStderr();
    EXPECT_FALSE(warned_if_unknown(images_in_use(store_, slurm_)));
    EXPECT_THAT(
        testing::internal::GetCapturedStderr(),
        testing::AllOf(testing::HasSubstr("no image is removed"), testing::HasSubstr("hand-over")));
}

TEST_F(ImagesInUse, AreThoseOfAllJobsWithoutARecordedEndWhileSlurmIsSilent) {
    add("perhaps-runs", "11", 'a');
    script("squeue", "exit 1");
    script("sacct", "exit 1");
    EXPECT_THAT(in_use(), UnorderedElementsAre(digest('a')));
}

}  // namespace
}  // namespace batchai::submit
