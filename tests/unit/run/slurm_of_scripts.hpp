// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "plan/plan.hpp"
#include "record/attempt.hpp"
#include "record/ended_by.hpp"
#include "record/job_files.hpp"
#include "record/retries.hpp"

namespace batchai::run {

// An attempt whose Slurm is three scripts. They append what they are asked to "asked", and answer
// with the contents of a file. What was durable when the requeue was asked for is kept.
class QueueAgainTest : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        // The job's directory is made when it is submitted.
        std::filesystem::create_directories(path("job"));
        plan_.retry = plan::Retry{.on = {"75", "nodeFailure", "preemption"}, .max = 2};
        script("squeue", "cat \"$here/queue\"");
        script("scontrol",
               "case $1 in\n"
               "requeue) cp \"$here/job/retries.json\" \"$here/job/attempts/1.json\" \"$here\"\n"
               "    [ ! -e \"$here/refuse\" ] || { cat \"$here/refuse\" >&2; exit 1; }\n"
               "    . \"$here/on-requeue\" ;;\n"
               "update) . \"$here/on-update\" ;;\n"
               "--oneliner) cat \"$here/settings\" ;;\n"
               "esac");
        script("scancel", "true");
        append("queue", "");
        append("on-requeue", "");
        append("on-update", "");
        append("settings", "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=None\n");
        old_path_ = std::getenv("PATH");
        setenv("PATH", (directory_ + "/bin:" + old_path_).c_str(), 1);
    }
    void TearDown() override {
        setenv("PATH", old_path_.c_str(), 1);
        PhasesTest::TearDown();
    }
    // Without arguments, scontrol reads its commands.
    void script(const std::string& name, const std::string& text) const {
        append("bin/" + name, "#!/bin/sh\nhere='" + directory_ +
                                  "'\nif [ $# = 0 ]; then\n    echo reads >> \"$here/asked\"\n    "
                                  "code=0\n    while read -r line; do \"$0\" $line || "
                                  "code=1; done\n    exit $code\nfi\necho \"" +
                                  name + " $*\" >> \"$here/asked\"\n" + text + "\n");
        std::filesystem::permissions(path("bin/" + name), std::filesystem::perms::owner_all);
    }
    // Runs an attempt whose rank 1 ends with the code.
    int attempt_that_ends_with(int code) {
        steps_.answer(0);
        answer_of_rank_1("error: boom\n", code,
                         "srun: error: n2.invalid: task 1: Exited with exit code " +
                             std::to_string(code) + "\n");
        return attempt();
    }
    // Slurm says that a job of higher priority has claimed the nodes.
    void is_preempted() const {
        std::filesystem::remove(path("settings"));
        append("settings",
               "JobId=7 ReqNodeList=(null) ExcNodeList=(null) PreemptTime=2026-11-24T10:00:00\n");
    }
    // Slurm says when the job was put into its queue.
    void was_queued_at(const std::string& time) const {
        std::filesystem::remove(path("queue"));
        append("queue", "7|RUNNING|None|main|ada|0|" + time + "|" + time + "|" + time +
                            "|N/A|1|n1.invalid|7|N/A|\n");
    }
    // The ranks of the step get Slurm's notice.
    void give_notice(const StepRequest& request) {
        EXPECT_EQ(request.pass_on(plan::checkpoint_notice), std::nullopt);
        for (; steps_.signalled.empty(); request.tick())
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    // Writes the record of a first attempt that has ended at 10:00, and the count that it has left.
    void has_ended(record::EndedBy by, int exit_code, const record::RetryCount& count) const {
        const record::JobFiles files(path("job"));
        std::filesystem::create_directories(path("job/attempts"));
        record::Attempt attempt;
        attempt.ended_by = by;
        attempt.exit_code = exit_code;
        attempt.end = base::from_iso8601("2026-11-24T10:00:00");
        ASSERT_TRUE(base::write_atomically(files.attempt(attempt.number), to_json(attempt)));
        ASSERT_TRUE(record::write_retry_count(files, count));
    }
    [[nodiscard]] record::RetryCount count() const {
        const auto found = record::read_retry_count(record::JobFiles(path("job")));
        return found.value().value();
    }
    [[nodiscard]] std::string asked() const { return text_of("asked"); }

    std::string old_path_;
};

}  // namespace batchai::run
