// SPDX-License-Identifier: GPL-2.0-or-later
#include "slurm/parse.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "slurm/messages.hpp"

// The texts were recorded from Slurm 22.05.8, unless a test says otherwise.
namespace batchai::slurm {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view queue =
    "6|CANCELLED|Priority|main|alice|0|2026-11-21T05:11:58|2026-11-21T05:11:58|"
    "2026-11-21T05:12:01|2026-11-21T05:12:01|0||N/A|N/A|\n"
    "1|PENDING|BeginTime|main|alice|0|2026-11-21T05:12:01|2026-11-21T05:14:02|"
    "2026-11-21T05:14:02|2026-11-21T06:14:02|1||N/A|N/A|\n"
    "3|PENDING|JobHeldUser|main|alice|0|2026-11-21T05:11:58|N/A|N/A|N/A|0||N/A|N/A|\n"
    "2|RUNNING|None|main|alice|0|2026-11-21T05:11:58|2026-11-21T05:11:58|"
    "2026-11-21T05:12:01|2026-11-21T06:12:01|0|h[1-3]|N/A|N/A|\n"
    "4|FAILED|NonZeroExitCode|main|alice|1792|2026-11-21T05:11:58|2026-11-21T05:11:58|"
    "2026-11-21T05:12:02|2026-11-21T05:12:03|0|h1|N/A|N/A|\n"
    "5|FAILED|JobLaunchFailure|main|alice|9|2026-11-21T05:11:58|2026-11-21T05:11:58|"
    "2026-11-21T05:12:02|2026-11-21T05:12:03|0|h1|N/A|N/A|\n";

TEST(ParseScriptJobs, OnlyThoseOfTheFileCountAndAnArrayOnce) {
    constexpr std::string_view said =
        "2 PENDING /home/a b|c/batch.sh\n"
        "2 RUNNING /home/a b|c/batch.sh\n"
        "3 PENDING /home/a b|c/batch.sh\n"
        "4 PENDING /home/a b|c/batch.sh.old\n"
        "5 RUNNING (null)\n";
    const auto jobs = parse_script_jobs(said, "/home/a b|c/batch.sh");
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_THAT(*jobs, ElementsAre(ScriptJob{"2", false}, ScriptJob{"3", true}));
    EXPECT_TRUE(parse_script_jobs("", "x").value().empty());
    EXPECT_FALSE(parse_script_jobs("slurm is tired\n", "x"));
}

TEST(ParseQueue, EachJobIsReadWithItsTimesAndNodes) {
    const auto jobs = parse_queue(queue);
    ASSERT_TRUE(jobs) << jobs.error().text();
    ASSERT_EQ(jobs->size(), 6U);
    const JobStatus& running = jobs->at("2");
    EXPECT_EQ(running.state, JobState::running);
    EXPECT_EQ(running.reason, "");
    EXPECT_EQ(running.partition, "main");
    EXPECT_EQ(running.user, "alice");
    EXPECT_THAT(running.nodes, ElementsAre("h1", "h2", "h3"));
    EXPECT_EQ(running.start, base::from_iso8601("2026-11-21T05:12:01"));
    EXPECT_EQ(running.exit_code, std::nullopt);
    EXPECT_FALSE(running.from_accounting);
}

TEST(ParseQueue, AHeldJobHasNoExpectedStart) {
    const JobStatus held = parse_queue(queue)->at("3");
    EXPECT_EQ(held.reason, "JobHeldUser");
    EXPECT_EQ(held.start, std::nullopt);
    EXPECT_TRUE(held.nodes.empty());
}

TEST(ParseQueue, TheRawWaitStatusBecomesCodeAndSignal) {
    const auto jobs = parse_queue(queue);
    EXPECT_EQ(jobs->at("4").exit_code, 7);
    EXPECT_EQ(jobs->at("4").signal, std::nullopt);
    EXPECT_EQ(jobs->at("5").signal, 9);
}

TEST(ParseQueue, ARequeuedJobCountsItsRestarts) {
    EXPECT_EQ(parse_queue(queue)->at("1").restart_count, 1);
}

TEST(ParseQueue, ALineThatDoesNotFitIsAnErrorThatQuotesIt) {
    for (const char* text :
         {"slurm_load_jobs error", "1|RUNNING|None", "1||None|m|u|0|x|x|x|x|0||x|x|",
          "1|RUNNING|None|m|u|x|x|x|x|x|0||x|x|", "1|RUNNING|None|m|u|0|x|x|x|x|y||x|x|",
          "1|RUNNING|None|m|u|0|x|x|x|x|0|h[|x|x|"}) {
        const auto jobs = parse_queue(text);
        ASSERT_FALSE(jobs) << text;
        EXPECT_THAT(jobs.error().what, HasSubstr(text));
    }
    EXPECT_TRUE(parse_queue("\n \n").value().empty());
}

TEST(ParseAccounting, StatesCodesAndMissingTimesAreRead) {
    const auto jobs = parse_accounting(
        "2|COMPLETED|None|main|alice|0:0|2026-11-21T05:11:58|2026-11-21T05:11:58|"
        "2026-11-21T05:12:01|2026-11-21T05:12:02|h[1-3]|2\n"
        "3|PENDING|JobHeldUser|main|alice|0:0|2026-11-21T05:11:58|Unknown|Unknown|Unknown|"
        "None assigned|6\n"
        "4|FAILED|None|main|alice|7:0|2026-11-21T05:11:58|2026-11-21T05:11:58|"
        "2026-11-21T05:12:02|2026-11-21T05:12:03|h1|4\n"
        "5|FAILED|None|main|alice|0:9|2026-11-21T05:11:58|2026-11-21T05:11:58|"
        "2026-11-21T05:12:02|2026-11-21T05:12:03|h1|4\n"
        "6|CANCELLED by 20001|None|main|alice|0:0|2026-11-21T05:11:58|2026-11-21T05:11:58|None|"
        "2026-11-21T05:12:01|None assigned|6\n");
    ASSERT_TRUE(jobs) << jobs.error().text();
    EXPECT_EQ(jobs->at("2").exit_code, 0);
    EXPECT_TRUE(jobs->at("2").from_accounting);
    EXPECT_EQ(jobs->at("3").exit_code, std::nullopt);
    EXPECT_TRUE(jobs->at("3").nodes.empty());
    EXPECT_EQ(jobs->at("4").exit_code, 7);
    EXPECT_EQ(jobs->at("5").signal, 9);
    EXPECT_EQ(jobs->at("6").state, JobState::cancelled);
    EXPECT_EQ(jobs->at("6").start, std::nullopt);
}

// Composed: two incarnations of one job.
TEST(ParseAccounting, TheLastIncarnationOfARequeuedJobCounts) {
    const auto jobs = parse_accounting(
        "1|PREEMPTED|None|main|alice|0:15|2026-11-21T05:11:58|2026-11-21T05:11:58|"
        "2026-11-21T05:11:58|2026-11-21T05:12:01|h1|1\n"
        "1|COMPLETED|None|main|alice|0:0|2026-11-21T05:12:01|2026-11-21T05:14:02|"
        "2026-11-21T05:14:02|2026-11-21T05:15:02|h2|1\n");
    EXPECT_EQ(jobs->at("1").state, JobState::completed);
    EXPECT_EQ(jobs->at("1").restart_count, 1);
}

TEST(ParseNodes, ANodeOfTwoPartitionsIsOneEntry) {
    const auto nodes = parse_nodes(
        "h1|idle|4|widget:2|debug|(null)|none|\n"
        "h1|idle|4|widget:2|main*|(null)|none|\n"
        "h2|idle+drain|4|widget:2|main*|a,b|a very long reason that has more than twenty | "
        "characters and a bar|\n"
        "h3|down|4|(null)|debug|(null)|batchai resize|\n");
    ASSERT_TRUE(nodes) << nodes.error().text();
    ASSERT_EQ(nodes->size(), 3U);
    EXPECT_EQ(nodes->at(0).state, NodeBaseState::idle);
    EXPECT_THAT(nodes->at(0).partitions, ElementsAre("main", "debug"));
    EXPECT_EQ(nodes->at(0).cpus, 4);
    EXPECT_EQ(nodes->at(0).gres, "widget:2");
    EXPECT_EQ(nodes->at(0).reason, "");
    EXPECT_TRUE(nodes->at(1).has(NodeFlag::drain));
    EXPECT_EQ(nodes->at(1).reason,
              "a very long reason that has more than twenty | characters and a bar");
    EXPECT_THAT(nodes->at(1).features, ElementsAre("a", "b"));
    EXPECT_EQ(nodes->at(2).state, NodeBaseState::down);
    EXPECT_FALSE(parse_nodes("h1|idle"));
}

// Composed from sinfo(1): flags of cloud nodes.
TEST(ParseNodes, FlagsAreReadAndUnknownOnesKept) {
    const auto nodes =
        parse_nodes("h1|IDLE+CLOUD+POWERING_UP+NOT_RESPONDING|4|(null)|main|(null)|none|");
    ASSERT_TRUE(nodes);
    EXPECT_TRUE(nodes->at(0).has(NodeFlag::powering_up));
    EXPECT_TRUE(nodes->at(0).has(NodeFlag::not_responding));
    EXPECT_TRUE(nodes->at(0).has(NodeFlag::other));
}

// As Slurm 22.05 prints it. The name of a step is its user's.
TEST(StepWithSrun, IsFoundByHostAndProcess) {
    const std::string line =
        " UserId=1000 StartTime=2026-11-24T10:45:34 TimeLimit=UNLIMITED State=RUNNING "
        "Partition=main NodeList=h1 Nodes=1 CPUs=1 Tasks=1 Name=";
    const std::string rest =
        " Network=(null) TRES=cpu=1 ResvPorts=(null) CPUFreqReq=Default Dist=Cyclic "
        "SrunHost:Pid=";
    const std::string text = "StepId=1.batch" + line + "batch" + rest + "(null):0\n" +  //
                             "StepId=1.0" + line + "x SrunHost:Pid=h1:21" + rest + "h1:20\n" +
                             "StepId=4_1.3" + line + "sh" + rest + "h2:21\n";
    EXPECT_EQ(step_with_srun(text, "h1", 20), "1.0");
    EXPECT_EQ(step_with_srun(text, "h2.example.org", 21), "4_1.3");
    EXPECT_EQ(step_with_srun(text, "h1", 21), std::nullopt);
    EXPECT_EQ(step_with_srun(text, "h1", 2), std::nullopt);
    EXPECT_EQ(step_with_srun("", "h1", 20), std::nullopt);
}

TEST(ParseSubmitted, TheIdIsTheLastLine) {
    EXPECT_EQ(parse_submitted("12\n").value().text(), "12");
    EXPECT_EQ(parse_submitted("a site's greeting\n12;cluster\n").value().text(), "12");
    EXPECT_FALSE(parse_submitted(""));
    EXPECT_FALSE(parse_submitted("Submitted batch job 12"));
}

TEST(Refusal, SlurmsWordsAreCleanedAndGetAHint) {
    const auto error =
        refusal("sbatch",
                "sbatch: error: invalid partition specified: nope\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified\n");
    EXPECT_EQ(error.what, "invalid partition specified: nope; Invalid partition name specified");
    EXPECT_EQ(error.exit_code, base::ExitCode::refused);
    EXPECT_THAT(error.hint, HasSubstr("sinfo -s"));
    EXPECT_THAT(refusal("sbatch",
                        "sbatch: error: Batch job submission failed: Requested node "
                        "configuration is not available\n")
                    .hint,
                HasSubstr("22.05.8"));
    EXPECT_THAT(refusal("sinfo",
                        "sinfo: error: fetch_config: DNS SRV lookup failed\n"
                        "sinfo: fatal: Could not establish a configuration source\n")
                    .hint,
                HasSubstr("SLURM_CONF_SERVER"));
    EXPECT_EQ(refusal("sbatch", "").what, "Slurm refused without giving a reason");
}

TEST(JobStates, EveryNameIsReadBackAndUnknownOnesAreUnknown) {
    for (int i = 0; i < static_cast<int>(JobState::unknown); ++i)
        EXPECT_EQ(job_state(to_string(static_cast<JobState>(i))), static_cast<JobState>(i));
    EXPECT_EQ(job_state("CANCELLED+"), JobState::cancelled);
    EXPECT_EQ(job_state("NEW_STATE"), JobState::unknown);
}

TEST(ParseConfiguration, TheFirstValueOfAKeyCounts) {
    const auto configuration = parse_configuration(
        "Configuration data as of 2026-11-21T05:11:58\n"
        "AccountingStorageType   = accounting_storage/slurmdbd\n"
        "SLURM_CONF              = /etc/slurm/slurm.conf\n"
        "SlurmdParameters        = a=b,c\n"
        "\n"
        "Cgroup Support Configuration:\n"
        "SlurmdParameters        = other\n"
        "Slurmctld(primary) at login is UP\n");
    ASSERT_TRUE(configuration) << configuration.error().text();
    EXPECT_EQ(configuration->size(), 3U);
    EXPECT_EQ(configuration->at("SLURM_CONF"), "/etc/slurm/slurm.conf");
    EXPECT_EQ(configuration->at("SlurmdParameters"), "a=b,c");
    EXPECT_FALSE(parse_configuration("Slurmctld(primary) at login is UP\n"));
}

TEST(ParseMpiTypes, TheNamesFollowTheTitle) {
    const auto old = parse_mpi_types("srun: MPI plugin types are...\nsrun: pmi2\nsrun: none\n");
    ASSERT_TRUE(old) << old.error().text();
    EXPECT_THAT(*old, ElementsAre("pmi2", "none"));
    const auto recent = parse_mpi_types(
        "MPI plugin types are...\n\tnone\n\tpmix\n"
        "specific pmix plugin versions available: pmix_v4,pmix_v5\n");
    ASSERT_TRUE(recent) << recent.error().text();
    EXPECT_THAT(*recent, ElementsAre("none", "pmix", "pmix_v4", "pmix_v5"));
    EXPECT_FALSE(parse_mpi_types("srun: error: no configuration\n"));
}

}  // namespace
}  // namespace batchai::slurm
