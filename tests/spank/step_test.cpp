// SPDX-License-Identifier: GPL-2.0-or-later
// The node side, with the real batchai-node: what a step gets, and how each failure ends.
#include "tests/spank/step.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace {

using fake::Ended;
using fake::slurm;
using fake::Step;
using testing::HasSubstr;

TEST_F(Step, SeesItsMountsAndNobodyElseDoes) {
    submit();
    const Ended ended = run("cat $AZ_BATCHAI_JOB_MOUNT_ROOT/deep/data/here");
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(ended.output, "some data\n");
    const std::filesystem::path target = plan.directories.job_mount_root + "/deep/data";
    EXPECT_TRUE(is_directory(target));
    EXPECT_TRUE(is_empty(target)) << "the mount can be seen outside";
}

TEST_F(Step, GetsThePlansEnvironmentOverItsOwn) {
    submit();
    slurm().environment["GREETING"] = "inherited";
    slurm().environment["SLURM_GPUS_ON_NODE"] = "2";
    const Ended ended =
        run("printf '%s|' \"$GREETING\" \"$AZ_BATCHAI_NUM_GPUS\" "
            "\"$AZ_BATCH_NODE_ID\" \"$BATCHAI_SANDBOX\"");
    EXPECT_EQ(ended.output,
              "two\nlines|2|n2|" + slurm().environment[BATCHAI_DIGEST_VARIABLE] + "|");
}

// Breaks when what the user has set for Python is lost, or a step in a step has the hook twice.
TEST_F(Step, PutsTheHookBeforeTheUsersPythonPath) {
    const auto path_of = [&](const char* before) {
        submit();
        slurm().environment[BATCHAI_PYTHON_HOOK_VARIABLE] = "/the/hook";
        slurm().environment.erase("PYTHONPATH");
        if (before != nullptr) slurm().environment["PYTHONPATH"] = before;
        return run("echo \"${PYTHONPATH-none} ${BATCHAI_PYTHON_HOOK-none}\"").output;
    };
    EXPECT_EQ(path_of(nullptr), "/the/hook none\n");
    EXPECT_EQ(path_of(""), "/the/hook none\n");
    EXPECT_EQ(path_of("/mine:/other"), "/the/hook:/mine:/other none\n");
    EXPECT_EQ(path_of("/the/hook:/mine"), "/the/hook:/mine none\n");
    const std::string longest(BATCHAI_PYTHON_PATH_LIMIT, 'x');
    EXPECT_EQ(path_of(longest.c_str()), longest + " none\n");
}

TEST_F(Step, RunsAsTheUserAndKeepsTheWorkingDirectory) {
    submit();
    const std::filesystem::path here = std::filesystem::current_path();
    std::filesystem::current_path(scratch.path());
    const Ended ended = run("echo $(id -u) $(id -g) $(pwd); grep CapEff /proc/self/status");
    std::filesystem::current_path(here);
    EXPECT_THAT(ended.output,
                HasSubstr(std::to_string(slurm().uid) + " " + std::to_string(slurm().gid) + " " +
                          scratch.path().string() + "\n"));
    EXPECT_THAT(ended.output, HasSubstr("CapEff:\t0000000000000000"));
}

TEST_F(Step, RunsForAUserWhoseGroupIsThatOfRoot) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
    slurm().gid = 0;
    slurm().groups = {0};
    submit();
    const Ended ended = run("echo $(id -u) $(id -g)");
    EXPECT_EQ(ended.output, std::to_string(slurm().uid) + " 0\n") << ended.errors;
}

// Breaks when the tasks start in the directory that Slurm needs for the files of their output.
TEST_F(Step, StartsWhereBatchaiRunSaysAndDoesNotTellItsOwnSteps) {
    submit();
    slurm().environment[BATCHAI_DIRECTORY_VARIABLE] = data.string();
    const Ended ended = run("pwd; echo ${" BATCHAI_DIRECTORY_VARIABLE "-unset}");
    EXPECT_EQ(ended.output, data.string() + "\nunset\n");
}

TEST_F(Step, CannotWriteToAReadOnlyMount) {
    plan.mounts[0].read_only = true;
    submit();
    const Ended ended = run("cd $AZ_BATCHAI_JOB_MOUNT_ROOT/deep/data && cat here && echo > new");
    EXPECT_NE(ended.exit_code, 0);
    EXPECT_EQ(ended.output, "some data\n");
    EXPECT_THAT(ended.errors, HasSubstr("Read-only file system"));
    EXPECT_FALSE(exists(data / "new"));
}

TEST_F(Step, GetsTheSourceMadeOnlyWhereThePlanSaysSo) {
    plan.mounts[0].source = (scratch.path() / "storage/share").string();
    plan.mounts[0].create_source = true;
    submit();
    EXPECT_EQ(run("echo kept > $AZ_BATCHAI_JOB_MOUNT_ROOT/deep/data/file").exit_code, 0);
    EXPECT_EQ(scratch.read("storage/share/file"), "kept\n");
}

TEST_F(Step, IsRefusedWhenASourceIsMissing) {
    plan.mounts[0].source = "/nonexistent/share";
    submit();
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.output, "") << "the task ran on the bare host";
    EXPECT_THAT(ended.errors, HasSubstr("batchai: node n2: "));
    EXPECT_THAT(ended.errors, HasSubstr("/nonexistent/share: No such file or directory"));
    EXPECT_THAT(ended.errors, HasSubstr("hint: "));
}

TEST_F(Step, ReportsItsRefusalWhereItIsToldTo) {
    plan.mounts[0].source = "/nonexistent/share";
    submit();
    slurm().environment["SLURM_PROCID"] = "3";
    slurm().environment[BATCHAI_REFUSALS_VARIABLE] = (scratch.path() / "job/refused").string();
    EXPECT_EQ(run("echo ran").exit_code, 1);
    const std::string report = scratch.read("job/refused.3.txt");
    EXPECT_THAT(report, HasSubstr("/nonexistent/share: No such file or directory\n"));
    EXPECT_THAT(report, HasSubstr("hint: "));
}

// Breaks when a rank that has come to its program is not told of, or one that has not is.
TEST_F(Step, SaysThatItsTaskHasStarted) {
    submit();
    scratch.directory("job/attempts");
    slurm().task = 78;  // whose number has the byte of another remark
    slurm().node = 2;
    slurm().nodes = 4;
    slurm().environment[BATCHAI_STARTS_VARIABLE] = "1-2";
    const Ended ended = run("printf %s \"${BATCHAI_STARTS-nothing}\"");
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
    EXPECT_EQ(ended.output, "nothing") << "steps of the task would write to the same note";
    EXPECT_EQ(scratch.read("job/attempts/1-2.started-2.txt"), "78\n");

    plan.mounts[0].source = "/nonexistent/share";
    submit();
    slurm().environment[BATCHAI_STARTS_VARIABLE] = "2";
    EXPECT_EQ(run("true").exit_code, 1);
    EXPECT_EQ(scratch.read("job/attempts/2.started-2.txt"), "");
}

// A note that cannot be written must not fail the job.
TEST_F(Step, StartsWithoutANote) {
    submit();
    slurm().environment[BATCHAI_STARTS_VARIABLE] = "1";
    EXPECT_EQ(run("echo ran").output, "ran\n");
}

TEST_F(Step, IsRefusedWhenThePlanWasChanged) {
    submit();
    scratch.file("job/plan.json", batchai::plan::to_json(plan) + " ");
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.output, "");
    EXPECT_THAT(ended.errors, HasSubstr("has changed since the job was submitted"));
}

TEST_F(Step, IsRefusedWhenATargetLeadsThroughALink) {
    submit();
    scratch.directory("node");
    chmod((scratch.path() / "node").c_str(), 0700);
    std::filesystem::create_directory_symlink(data, scratch.path() / "node/0123");
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("cannot be entered"));
    EXPECT_FALSE(exists(data / "mounts"));
}

TEST_F(Step, IsRefusedWhenTheDigestIsMissingOrOdd) {
    submit();
    for (const std::string& odd :
         {std::string(), std::string(64, 'G'), std::string(63, 'a'), std::string(100000, 'a')}) {
        slurm().environment[BATCHAI_DIGEST_VARIABLE] = odd;
        const Ended ended = run("echo ran");
        EXPECT_EQ(ended.exit_code, 1);
        EXPECT_EQ(ended.output, "");
    }
}

TEST_F(Step, IsRefusedWhenThePlansPathIsTooLong) {
    submit();
    slurm().environment[BATCHAI_PLAN_VARIABLE] = "/" + std::string(100000, 'x');
    EXPECT_EQ(run("echo ran").exit_code, 1);
}

TEST_F(Step, IsRefusedWhenBatchaiNodeIsMissing) {
    submit();
    node_program = "/nonexistent/batchai-node";
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("cannot start /nonexistent/batchai-node: No such file"));
}

TEST_F(Step, IsRefusedWhenBatchaiNodeEndsWithoutAWord) {
    submit();
    node_program = scratch.file("silent", "#!/bin/sh\nexit 0\n", true).string();
    EXPECT_THAT(run("echo ran").errors, HasSubstr("ended without a message"));
}

TEST_F(Step, IsRefusedWhenBatchaiNodeTalksNonsense) {
    submit();
    node_program =
        scratch.file("mad", "#!/bin/sh\nprintf 'garbage garbage garbage' >&5\necho >&4\n", true)
            .string();
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("have different versions"));
}

TEST_F(Step, IsRefusedAfterTheDeadlineWhenBatchaiNodeHangs) {
    submit();
    node_program = scratch
                       .file("hanging",
                             "#!/bin/sh\necho $$ > " + (scratch.path() / "pid").string() +
                                 "\nexec sleep 600\n",
                             true)
                       .string();
    const Ended ended = run("echo ran", {"timeout=3"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("not ready after 3 s"));
    EXPECT_NE(kill(std::stoi(scratch.read("pid")), 0), 0) << "it was left behind";
}

TEST_F(Step, GivesBatchaiNodeNoRootNoDescriptorsAndNoEnvironment) {
    submit();
    slurm().environment["LD_PRELOAD"] = "/evil.so";
    setenv("SECRET_OF_SLURMSTEPD", "1", 1);
    node_program = scratch
                       .file("nosy",
                             "#!/bin/sh\nexec > " + (scratch.path() / "seen").string() +
                                 "\ngrep -E 'Uid|Gid|Groups|CapPrm|SigBlk' "
                                 "/proc/self/status\nls /proc/$$/fd | tr '\\n' ' '\nenv\n"
                                 "cat /proc/self/oom_score_adj\n",
                             true)
                       .string();
    EXPECT_EQ(run("echo ran").exit_code, 1);
    unsetenv("SECRET_OF_SLURMSTEPD");
    const std::string seen = scratch.read("seen");
    const std::string uid = std::to_string(slurm().uid);
    const std::string gid = std::to_string(slurm().gid);
    EXPECT_THAT(seen, HasSubstr("Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\n"));
    EXPECT_THAT(seen, HasSubstr("Gid:\t" + gid + "\t" + gid + "\t" + gid + "\t" + gid + "\n"));
    EXPECT_THAT(seen, HasSubstr("CapPrm:\t0000000000000000"));
    EXPECT_THAT(seen, testing::Not(HasSubstr("SLURMD_NODENAME")));
    EXPECT_THAT(seen, testing::Not(HasSubstr("evil")));
    EXPECT_THAT(seen, testing::Not(HasSubstr("SECRET_OF_SLURMSTEPD")));
    // 0 to 5, and 10, where the shell keeps its script.
    EXPECT_THAT(seen, HasSubstr("\n0 1 10 2 3 4 5 "));
}

TEST_F(Step, HandsSecretsOnFromAFileThatOnlyTheUserCanRead) {
    plan.secret_names = {"TOKEN"};
    submit();
    const auto file = scratch.file("job/secrets.json", R"({"TOKEN": "hush", "OTHER": "x"})");
    Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("chmod 600"));
    EXPECT_THAT(ended.errors, testing::Not(HasSubstr("hush")));
    ASSERT_EQ(chmod(file.c_str(), 0600), 0);
    ended = run("echo $TOKEN $OTHER");
    EXPECT_EQ(ended.output, "hush\n");
}

TEST_F(Step, WithTheOptionButWithoutTheMarkerIsRefused) {
    slurm().given["job-json"] = "job.json";
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.output, "");
    EXPECT_THAT(ended.errors, HasSubstr("--export"));
}

TEST_F(Step, WithTheOptionAndTheKillSwitchIsRefused) {
    submit();
    slurm().given["job-json"] = "job.json";
    slurm().environment[BATCHAI_DISABLE_VARIABLE] = "1";
    const Ended ended = run("echo ran");
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("BATCHAI_DISABLE"));
}

TEST_F(Step, WithTheKillSwitchAloneIsLeftAlone) {
    submit();
    slurm().environment[BATCHAI_DISABLE_VARIABLE] = "1";
    EXPECT_EQ(run("echo ran $BATCHAI_SANDBOX").output, "ran\n");
}

TEST_F(Step, OfAnotherJobIsLeftAlone) {
    node_program = "/nonexistent";
    EXPECT_EQ(run("echo ran $BATCHAI_SANDBOX").output, "ran\n");
}

TEST_F(Step, ThatIsTheBatchScriptOrTheExternStepIsLeftAlone) {
    submit();
    slurm().given["job-json"] = "job.json";
    for (const unsigned int step : {0xfffffffbU, 0xfffffffcU}) {
        slurm().step_id = step;
        EXPECT_EQ(run("echo ran $BATCHAI_SANDBOX").output, "ran\n");
    }
}

// What a job inherits that was submitted from within another one, without the plugin.
TEST_F(Step, OfAJobWithThePlanOfAnotherOneIsAPlainOne) {
    submit();
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4710 0";
    slurm().environment["AZ_BATCHAI_NUM_GPUS"] = "2";
    slurm().environment["SLURM_SPANK__SLURM_SPANK_OPTION_batchai_job_json"] = "/old/job.json";
    slurm().environment["RANK"] = "3";
    slurm().environment["WORLD_SIZE"] = "16";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "RANK=3,WORLD_SIZE=8";
    node_program = "/nonexistent";
    const char* const show =
        "env | grep -E '^(BATCHAI|AZ_BATCH|RANK|WORLD_SIZE|SLURM_SPANK)' || true";
    for (const unsigned int step : {0U, 0xfffffffbU}) {
        slurm().step_id = step;
        const Ended ended = run(show);
        EXPECT_EQ(ended.output, "WORLD_SIZE=16\n") << "what the user has set stays";
        EXPECT_FALSE(exists(scratch.path() / "run")) << "there is nothing to clean up";
    }
    slurm().step_id = 0;
    slurm().given["job-json"] = "job.json";
    const Ended refused = run("echo ran");
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_THAT(refused.errors, HasSubstr("is that of job 4710"));
}

// The user may set anything, and root searches the environment for each name.
TEST_F(Step, IsRefusedWithoutMuchWorkForRootWhenAnotherJobLeftTooManyVariables) {
    submit();
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4710 0";
    for (int i = 0; i < 2000; ++i)
        slurm().environment["AZ_BATCH" + std::to_string(i)] = "";
    const Ended ended = fake::in_process([&] {
        slurm().context = S_CTX_REMOTE;
        fake::Plugin plugin({"runtime_directory=" + runtime_directory()});
        plugin.call("slurm_spank_init");
        plugin.call("slurm_spank_init_post_opt");
        std::printf("%u", slurm().removals);
        return 0;
    });
    EXPECT_EQ(ended.output, "1");
    const Ended refused = run("echo ran");
    EXPECT_EQ(refused.exit_code, 1);
    EXPECT_EQ(refused.output, "");
    EXPECT_THAT(refused.errors, HasSubstr("variables of batchai that belong to another job"));
}

TEST_F(Step, OfAnotherJobReadsNoLongerListOfRankVariablesThanOursIs) {
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4710 0";
    slurm().environment["RANK"] = "3";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] =
        std::string(BATCHAI_RANK_VARIABLES_LIMIT, ',') + "RANK=3";
    EXPECT_EQ(run("echo $RANK$BATCHAI_RANK_VARIABLES").output, "3\n");
}

TEST_F(Step, OfTheBatchScriptTellsTheOthersWhichJobTheyBelongTo) {
    submit();
    slurm().environment["SLURM_ARRAY_TASK_ID"] = "5";  // of a job around this one
    slurm().environment["SLURM_RESTART_COUNT"] = "3";
    slurm().environment[BATCHAI_CLEAN_UP_VARIABLE] = "1";
    slurm().step_id = 0xfffffffbU;
    const char* const show = "echo $BATCHAI_SLURM_JOB${BATCHAI_CLEAN_UP+ cleans up}";
    EXPECT_EQ(run(show).output, "4711 0\n");
    slurm().restarts = 2;
    slurm().array = 4709;
    slurm().array_task = 7;
    EXPECT_EQ(run(show).output, "4711 2 7\n");
    // slurmstepd has these from the variables in every other step.
    slurm().step_id = 0;
    EXPECT_EQ(run(show).output, "4711 0\n");
}

TEST_F(Step, EndsSoonAlsoWhenItsUserStopsBatchaiNode) {
    submit();
    const std::string pid = (scratch.path() / "job/pid").string();
    node_program =
        scratch
            .file("named", "#!/bin/sh\necho $$ > " + pid + "\nexec " + node_program + " \"$@\"\n",
                  true)
            .string();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(run("kill -STOP $(cat " + pid + ")").exit_code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
    EXPECT_NE(kill(std::stoi(scratch.read("job/pid")), 0), 0) << "it was left behind";
}

// Under Slurm's name of the node, which is not the host's, whatever name came with the environment.
TEST_F(Step, LeavesATraceForTheExecutionLog) {
    slurm().environment["SLURM_STEP_NODELIST"] = "n3";
    submit();
    ASSERT_EQ(run("true").exit_code, 0);
    const std::string trace = scratch.read("job/node/n3.log");
    EXPECT_THAT(trace, HasSubstr("mounted azureFileShares \"share\" (" + data.string() + ") at "));
    EXPECT_THAT(trace, testing::MatchesRegex("[0-9T:.+-]+ mounted(.|\n)*"));
}

}  // namespace
