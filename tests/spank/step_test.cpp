// SPDX-License-Identifier: GPL-2.0-or-later
// The node side, with the real batchai-node: what a step gets, and how each failure ends.
#include "tests/spank/step.hpp"

#include <array>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "node/nccl_interface.hpp"
#include "node/reply.hpp"

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
    const Ended ended = run("echo ran", {"timeout=1"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.errors, HasSubstr("not ready after 1 s"));
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
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
    EXPECT_NE(kill(std::stoi(scratch.read("job/pid")), 0), 0) << "it was left behind";
}

TEST_F(Step, LeavesATraceForTheExecutionLog) {
    submit();
    ASSERT_EQ(run("true").exit_code, 0);
    // Under this host's own name, whatever name came with the job's environment.
    std::array<char, 256> host{};
    ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
    const std::string name = std::string(host.data()).substr(0, std::string(host.data()).find('.'));
    const std::string trace = scratch.read("job/node/" + name + ".log");
    EXPECT_THAT(trace, HasSubstr("mounted azureFileShares \"share\" (" + data.string() + ") at "));
    EXPECT_THAT(trace, testing::MatchesRegex("[0-9T:.+-]+ mounted(.|\n)*"));
}

constexpr const char* show_rank_variables =
    "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $MASTER_PORT";
constexpr const char* show_further_variables =
    "echo $GROUP_RANK/$GROUP_WORLD_SIZE ${TORCHELASTIC_RUN_ID-none} "
    "$TORCHELASTIC_RESTART_COUNT/$TORCHELASTIC_MAX_RESTARTS ${JAX_COORDINATOR_ADDRESS-none} "
    "${AZ_BATCHAI_TASK_INDEX-none} ${AZ_BATCHAI_PYTORCH_INIT_METHOD-none} "
    "${TORCHELASTIC_USE_AGENT_STORE-none}";

class RankOfAStep : public Step {
  protected:
    RankOfAStep() {
        slurm().tasks = 8;
        slurm().local_tasks = 2;
        slurm().task = 5;
        slurm().local_task = 1;
        submit();
    }
};

TEST_F(RankOfAStep, KnowsItsNumberAndWhereBatchaiRunLetsTheRanksMeet) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    EXPECT_EQ(run(std::string(show_rank_variables) + "; echo $BATCHAI_MASTER").output,
              "5/8 1/2 10.0.0.4 4321\n\n");
}

TEST_F(RankOfAStep, KeepsWhatTheUserOrTheJobFileHasSet) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment["MASTER_PORT"] = "29500";
    slurm().environment["LOCAL_RANK"] = "";
    plan.environment.push_back({"WORLD_SIZE", "16"});
    submit();
    EXPECT_EQ(run(show_rank_variables).output, "5/16 /2 10.0.0.4 29500\n");
}

TEST_F(RankOfAStep, DoesNotTakeAnOuterStepsNumberForItsOwn) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "RANK=0,WORLD_SIZE=1,MASTER_ADDR=h1";
    slurm().environment["RANK"] = "0";
    slurm().environment["WORLD_SIZE"] = "4";  // set by hand since
    EXPECT_EQ(run(show_rank_variables).output, "5/4 1/2 10.0.0.4 4321\n");
}

TEST_F(RankOfAStep, IsNoneWhereBatchaiRunSaysSo) {
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "none";
    EXPECT_EQ(run(std::string(show_rank_variables) + "; echo \"<$BATCHAI_RANK_VARIABLES>\"").output,
              "/ /\n<>\n");
    EXPECT_EQ(run(show_further_variables).output, "/ none / none none none none\n");
}

// torch calls a node a group.
TEST_F(RankOfAStep, HasWhatTorchrunWouldSetAndWhatJaxAndBatchAiCallIt) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().step_id = 3;
    slurm().nodes = 4;
    slurm().node = 2;
    EXPECT_EQ(run(show_further_variables).output,
              "2/4 4711.3 0/0 10.0.0.4:4321 5 tcp://10.0.0.4:4321 none\n");
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4711 2";
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "fd00::4 4321";
    EXPECT_EQ(run(show_further_variables).output,
              "2/4 4711.3 2/0 [fd00::4]:4321 5 tcp://[fd00::4]:4321 none\n");
    slurm().environment["SLURM_RESTART_COUNT"] = "7";  // of a job around this one
    for (const char* odd : {"4711 2;id", "4711", "", "4711 2 1 1", "4711 22222222222"}) {
        slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = odd;
        EXPECT_EQ(run("echo $TORCHELASTIC_RESTART_COUNT").output, "0\n") << odd;
    }
}

TEST_F(RankOfAStep, KeepsTheUsersFurtherVariables) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().environment["TORCHELASTIC_RUN_ID"] = "mine";
    slurm().environment["JAX_COORDINATOR_ADDRESS"] = "h9:1";
    plan.environment.push_back({"AZ_BATCHAI_TASK_INDEX", "7"});
    plan.environment.push_back({"AZ_BATCHAI_PYTORCH_INIT_METHOD", "file:///nfs/meet"});
    submit();
    EXPECT_EQ(run(show_further_variables).output, "0/1 mine 0/0 h9:1 7 file:///nfs/meet none\n");
}

// With a part of the world from the user, the run id would still make Lightning read the whole of
// it.
TEST_F(RankOfAStep, HasNoRunIdWithAWorldThatIsPartlyTheUsers) {
    for (const char* name :
         {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
        slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
        slurm().environment[name] = "1";
        // It is what the plugin has given to the task of an outer step.
        slurm().environment["TORCHELASTIC_RUN_ID"] = "4711.0";
        slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "TORCHELASTIC_RUN_ID=4711.0";
        EXPECT_EQ(run(show_further_variables).output,
                  "0/1 none 0/0 10.0.0.4:4321 5 tcp://10.0.0.4:4321 none\n")
            << name;
        slurm().environment.erase(name);
    }
}

TEST_F(RankOfAStep, HasNoRunIdWhereItIsAlone) {
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    slurm().tasks = 1;
    slurm().task = 0;
    EXPECT_EQ(run(show_further_variables).output,
              "0/1 none 0/0 10.0.0.4:4321 0 tcp://10.0.0.4:4321 none\n");
}

TEST_F(RankOfAStep, RecognizesTheLongestVariablesOfAnOuterStep) {
    const std::string address = std::string(BATCHAI_MASTER_LIMIT - 8, ':');
    slurm().environment["SLURM_GPUS_ON_NODE"] = "2";
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "0";
    for (unsigned int* number : {&slurm().job_id, &slurm().step_id, &slurm().tasks, &slurm().nodes,
                                 &slurm().node, &slurm().task, &slurm().local_tasks})
        *number = 4000000000;
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4000000000 1234567890 1234567890";
    slurm().environment[BATCHAI_MASTER_VARIABLE] = address + " 65535";
    const std::string names =
        "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT "
        "GROUP_RANK GROUP_WORLD_SIZE TORCHELASTIC_RUN_ID "
        "TORCHELASTIC_RESTART_COUNT TORCHELASTIC_MAX_RESTARTS "
        "JAX_COORDINATOR_ADDRESS JAX_LOCAL_DEVICE_IDS AZ_BATCHAI_TASK_INDEX "
        "AZ_BATCHAI_PYTORCH_INIT_METHOD " BATCHAI_RANK_VARIABLES_VARIABLE;
    std::istringstream outer(run("printenv " + names).output);
    std::istringstream words(names);
    std::string name;
    std::string value;
    while (words >> name && std::getline(outer, value))
        slurm().environment[name] = value;
    EXPECT_EQ(name, BATCHAI_RANK_VARIABLES_VARIABLE) << "a variable is missing";
    slurm().task = 5;
    slurm().step_id = 6;
    slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
    EXPECT_EQ(run("echo $RANK $TORCHELASTIC_RUN_ID $JAX_COORDINATOR_ADDRESS").output,
              "5 4000000000.6 10.0.0.4:4321\n");
}

// JAX would take Slurm's local number of the task for that of its GPU, which is 0 where the task
// sees only one.
TEST_F(RankOfAStep, TellsJaxTheNumberOfTheOnlyGpuThatItSees) {
    constexpr const char* show = "echo ${JAX_LOCAL_DEVICE_IDS-none}";
    EXPECT_EQ(run(show).output, "none\n");
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "2,3";
    EXPECT_EQ(run(show).output, "none\n");
    slurm().environment["CUDA_VISIBLE_DEVICES"] = "MIG-7f0d";
    EXPECT_EQ(run(show).output, "0\n");
    slurm().environment["JAX_LOCAL_DEVICE_IDS"] = "0,1";
    EXPECT_EQ(run(show).output, "0,1\n");
}

// A rank with GPUs, on a host that has an interface for NCCL. The host decides which one that is.
class RankWithGpus : public RankOfAStep {
  protected:
    RankWithGpus() {
        slurm().local_task = 0;
        // The step ends with the only task that runs here, so its log is complete.
        slurm().local_tasks = 1;
        slurm().environment["SLURM_GPUS_ON_NODE"] = "2";
        slurm().environment["HOME"] = scratch.path().string();
        slurm().environment[BATCHAI_MASTER_VARIABLE] = "10.0.0.4 4321";
        const auto chosen = batchai::node::nccl_interface_of_this_node("10.0.0.4", {});
        if (chosen) interface = chosen->name;
    }
    void SetUp() override {
        if (interface.empty()) GTEST_SKIP() << "no interface but loopback is up here";
    }

    std::string show_nccl() {
        return run("echo \"${NCCL_SOCKET_IFNAME-none} ${BATCHAI_NCCL_INTERFACE-none}\"").output;
    }
    [[nodiscard]] std::string trace() const {
        return scratch.read("job/node/" + batchai::node::node_name() + ".log");
    }

    std::string interface;
};

TEST_F(RankWithGpus, TellsNcclTheInterfaceAndTheLogWhy) {
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    EXPECT_THAT(trace(), HasSubstr(" NCCL_SOCKET_IFNAME is \"=" + interface + "\": NCCL uses " +
                                   interface + " ("));
}

TEST_F(RankWithGpus, TellsTheLogOnlyOncePerNode) {
    slurm().local_task = 1;
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    EXPECT_THAT(trace(), testing::Not(HasSubstr("NCCL")));
}

TEST_F(RankWithGpus, KeepsTheInterfaceOfTheUserTheJobFileOrNcclsOwnFile) {
    slurm().environment["NCCL_SOCKET_IFNAME"] = "mine";
    EXPECT_EQ(show_nccl(), "mine none\n");
    slurm().environment["NCCL_SOCKET_IFNAME"] = "";
    EXPECT_EQ(show_nccl(), " none\n") << "set to nothing is set as well";
    slurm().environment.erase("NCCL_SOCKET_IFNAME");
    scratch.file(".nccl.conf", "NCCL_SOCKET_IFNAME=files\n");
    EXPECT_EQ(show_nccl(), "none none\n");
    // This file takes the place of the one in the home.
    slurm().environment["NCCL_CONF_FILE"] = scratch.file("other.conf", "NCCL_DEBUG=WARN\n");
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
    plan.environment.push_back({"NCCL_SOCKET_IFNAME", "^docker0"});
    submit();
    EXPECT_EQ(show_nccl(), "^docker0 none\n");
}

TEST_F(RankWithGpus, DoesNotTakeAnOuterStepsInterfaceForTheUsers) {
    slurm().environment["NCCL_SOCKET_IFNAME"] = "=outer";
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "RANK=0,NCCL_SOCKET_IFNAME==outer";
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n");
}

TEST_F(RankWithGpus, TellsNcclNothingWithoutGpusOrWhereItIsNoRank) {
    slurm().environment[BATCHAI_RANK_VARIABLES_VARIABLE] = "none";
    slurm().environment.erase(BATCHAI_MASTER_VARIABLE);
    EXPECT_EQ(show_nccl(), "none none\n");
    slurm().environment.erase(BATCHAI_RANK_VARIABLES_VARIABLE);
    EXPECT_EQ(show_nccl(), '=' + interface + " none\n") << "as in a step of srun";
    slurm().environment["SLURM_GPUS_ON_NODE"] = "0";
    EXPECT_EQ(show_nccl(), "none none\n");
}

TEST_F(RankOfAStep, GetsAPortThatIsHeldForItWithoutBatchaiRun) {
    const Ended ended =
        run(std::string(show_rank_variables) +
            "; bind() { perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(LocalPort => "
            "$ENV{MASTER_PORT}, Listen => 1, ReuseAddr => shift)' $1; }"
            "; bind 0 && echo anybody can have it; bind 1 && echo a rank can have it");
    EXPECT_THAT(ended.output,
                testing::MatchesRegex("5/8 1/2 [^ ]+ [1-9][0-9]+\na rank can have it\n"))
        << ended.errors;
}

TEST_F(RankOfAStep, LearnsThePortFromTheFirstNodeOfTheStep) {
    slurm().nodes = 2;
    slurm().node = 1;
    slurm().step_id = 3;
    slurm().environment[BATCHAI_SLURM_JOB_VARIABLE] = "4711 2";
    scratch.directory("job/node");
    scratch.file("job/node/master-4711.2.3", "10.0.0.9 5555\n");
    EXPECT_EQ(run(show_rank_variables).output, "5/8 1/2 10.0.0.9 5555\n");
}

class Epilog : public Step {
  protected:
    Ended epilog(std::vector<std::string> arguments) {
        return fake::in_process([&] {
            slurm().context = S_CTX_JOB_SCRIPT;
            fake::Plugin plugin(arguments);
            return plugin.call("slurm_spank_init") + plugin.call("slurm_spank_job_epilog");
        });
    }
};

TEST_F(Epilog, RemovesWhatTheJobLeftAndNothingElse) {
    plan.directories.node_root =
        (scratch.path() / ("batchai-" + std::to_string(slurm().uid))).string();
    plan.directories.job_temp = plan.directories.node_root + "/0123";
    plan.directories.mount_root = plan.directories.job_temp + "/cluster-mounts";
    plan.directories.job_mount_root = plan.directories.job_temp + "/mounts";
    plan.environment[0].value = plan.directories.job_mount_root;
    submit();
    ASSERT_EQ(run("touch " + plan.directories.job_temp + "/left; ln -s " + data.string() + " " +
                  plan.directories.job_temp + "/link")
                  .exit_code,
              0);
    const std::string other = plan.directories.node_root + "/4567";
    std::filesystem::create_directory(other);
    const std::vector<std::string> arguments{"node_program=" + node_program,
                                             "node_directory=" + scratch.path().string(),
                                             "runtime_directory=" + runtime_directory()};
    slurm().job_id = 4712;
    EXPECT_EQ(epilog(arguments).exit_code, 0);
    EXPECT_TRUE(std::filesystem::exists(plan.directories.job_temp)) << "another job's epilog";
    slurm().job_id = 4711;
    EXPECT_EQ(epilog(arguments).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(plan.directories.job_temp));
    EXPECT_TRUE(std::filesystem::exists(other));
    EXPECT_TRUE(exists(data / "here")) << "a link was followed";
    EXPECT_TRUE(is_empty(std::filesystem::path(runtime_directory())));
}

TEST_F(Epilog, StartsNothingForAJobThatHadNoSandboxHere) {
    const auto noisy =
        scratch.file("noisy", "#!/bin/sh\ntouch " + (scratch.path() / "ran").string(), true);
    ASSERT_EQ(run("true").exit_code, 0);
    EXPECT_EQ(epilog({"node_program=" + noisy.string(), "runtime_directory=" + runtime_directory()})
                  .exit_code,
              0);
    EXPECT_FALSE(exists(scratch.path() / "ran"));
}

TEST_F(Epilog, SaysThatDataIsKeptOnTheNode) {
    std::filesystem::create_directories(runtime_directory());
    scratch.file("run/" + std::to_string(slurm().job_id), "");
    const auto program =
        scratch.file("kept", "#!/bin/sh\nexit " + std::to_string(BATCHAI_CLEAN_KEPT_DATA), true);
    const Ended ended =
        epilog({"node_program=" + program.string(), "runtime_directory=" + runtime_directory()});
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_THAT(ended.errors, HasSubstr("could neither be stored nor saved"));
    EXPECT_THAT(ended.errors, testing::Not(HasSubstr("the clean-up failed")));
}

TEST_F(Epilog, NeverFailsAndIsSoonOver) {
    const auto epilog_of_ours = [&](const std::string& program) {
        std::filesystem::create_directories(runtime_directory());
        scratch.file("run/" + std::to_string(slurm().job_id), "");
        return epilog({"node_program=" + program, "runtime_directory=" + runtime_directory()});
    };
    EXPECT_EQ(epilog_of_ours("/nonexistent").exit_code, 0);
    const auto failing = scratch.file("failing", "#!/bin/sh\nexit 1\n", true).string();
    EXPECT_EQ(epilog_of_ours(failing).exit_code, 0);
    const auto hanging =
        scratch.file("hanging", "#!/bin/sh\ntrap '' TERM\nkill -STOP $$\n", true).string();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(epilog_of_ours(hanging).exit_code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace
