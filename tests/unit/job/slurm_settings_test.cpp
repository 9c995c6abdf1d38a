// SPDX-License-Identifier: GPL-2.0-or-later
// The object "slurm", which has options of sbatch.
#include <string>

#include "fault_case.hpp"
#include "job/schema/field_table.hpp"
#include "job/to_json.hpp"
#include "job_text.hpp"

namespace batchai::job::test {
namespace {

std::string with_slurm(std::string_view settings) {
    return with_properties("\"slurm\": {\n" + std::string(settings) + "}");
}

const FaultCase slurm_faults[] = {
    {"OfThePlan", with_slurm("\"nodes\": \"3\""), 6, 1, 7, "E020",
     "\"nodes\" cannot be set here; \"nodeCount\" sets it"},
    {"OfThePlanWithoutAKey", with_slurm("\"output\": \"x\""), 6, 1, 8, "E020",
     "\"output\" cannot be set here; the job's logs are below \"stdOutErrPathPrefix\""},
    {"OfAnotherKey", with_slurm("\"time\": \"10\""), 6, 1, 6, "E020",
     "\"time\" cannot be set here; \"constraints.maxWallClockTime\" sets it"},
    {"Misspelt", with_slurm("\"mailType\": \"END\""), 6, 1, 10, "E012",
     "unknown key \"mailType\"; did you mean \"mail-type\"?"},
    {"ForTheCommandLine", with_slurm("\"switches\": \"1\""), 6, 1, 10, "E012",
     "unknown key \"switches\"; other options of sbatch can follow \"--\" on the command line of "
     "`batchai job create`"},
    {"Outside", with_properties("\"partition\": \"gpu\""), 5, 1, 11, "E020",
     "\"partition\" is in the wrong place; it belongs in \"slurm\""},
    {"Number", with_slurm("\"gpus-per-node\": 2"), 6, 18, 1, "E014",
     "\"gpus-per-node\" must be a string, found a number; write it in double quotes"},
    {"Dash", with_slurm("\"partition\": \"--uid=0\""), 6, 14, 9, "E026",
     "\"partition\" must not start with \"-\""},
    {"DashInAComment", with_slurm("\"comment\": \"-x\""), 6, 12, 4, "E026",
     "\"comment\" must not start with \"-\""},
    {"LineBreak", with_slurm("\"comment\": \"a\\nb\""), 6, 12, 6, "E026",
     "\"comment\" must not contain control characters such as line breaks"},
    {"Blank", with_slurm("\"account\": \"a b\""), 6, 12, 5, "E026",
     "\"account\" must not contain blanks or control characters"},
    {"EmptyElement", with_slurm("\"exclude\": \"n1,,n2\""), 6, 12, 8, "E026",
     "\"exclude\" has an empty element"},
    {"OpenBracket", with_slurm("\"nodelist\": \"n[1-2\""), 6, 13, 7, "E026",
     "\"nodelist\" has brackets that do not match"},
    {"CommaAtTheEnd", with_slurm("\"mail-type\": \"END,\""), 6, 14, 6, "E026",
     "\"mail-type\" has an empty element; remove the comma at the end"},
    {"Memory", with_slurm("\"mem\": \"64 GB\""), 6, 8, 7, "E026",
     "\"mem\" is not a memory size: \"64 GB\"; give a whole number and K, M, G or T, such as "
     "\"64G\""},
    {"Gpus", with_slurm("\"gpus-per-node\": \"a100:\""), 6, 18, 7, "E026",
     "\"gpus-per-node\" is not a number of GPUs: \"a100:\"; write it as \"2\" or \"a100:2\""},
    {"ArrayBackwards", with_slurm("\"array\": \"7-3\""), 6, 10, 5, "E026",
     "\"array\" is not a list of array indexes: \"7-3\"; write it as \"0-15\", \"1,3,5-7\", "
     "\"0-99:2\" or \"0-99%4\""},
    {"ArrayWithNoneAtOnce", with_slurm("\"array\": \"0-3%0\""), 6, 10, 7, "E026",
     "\"array\" is not a list of array indexes: \"0-3%0\"; write it as \"0-15\", \"1,3,5-7\", "
     "\"0-99:2\" or \"0-99%4\""},
};

class SlurmFaults : public testing::TestWithParam<FaultCase> {};

TEST_P(SlurmFaults, AreReportedWhereTheyAre) {
    expect_only_this_fault(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Settings, SlurmFaults, testing::ValuesIn(slurm_faults), case_name);

TEST(SlurmSettings, AreReadAsTheyAreWritten) {
    const Parsed parsed = parse(with_slurm(
        R"("partition": "gpu,cpu", "exclude": "n[1-3,7],x1", "array": "0-15:3,20%4", "mem": "0",
           "gpus-per-node": "a100:1,k80:2", "exclusive": false, "begin": "now + 1 hour",
           "dependency": "afterok:1?afterany:2")"));
    ASSERT_TRUE(parsed.spec) << render_all(parsed.diagnostics, "job.json", "");
    SlurmSettings wanted;
    wanted.partition = "gpu,cpu";
    wanted.exclude = "n[1-3,7],x1";
    wanted.array = "0-15:3,20%4";
    wanted.mem = "0";
    wanted.gpus_per_node = "a100:1,k80:2";
    wanted.exclusive = false;
    wanted.begin = "now + 1 hour";
    wanted.dependency = "afterok:1?afterany:2";
    EXPECT_EQ(parsed.spec->slurm, wanted);
    EXPECT_EQ(to_json(*parsed.spec)["slurm"]["partition"], base::Value("gpu,cpu"));
}

// Programs for Batch AI do not know this key.
TEST(SlurmSettings, AreNotShownForAJobWithoutThem) {
    const Parsed parsed = parse(with_properties("\"$c\": 1"));
    ASSERT_TRUE(parsed.spec);
    const base::Value shown = to_json(*parsed.spec);
    for (const auto& [key, value] : *shown.object())
        EXPECT_NE(key, "slurm");
}

TEST(SlurmSettings, AreAllNamedAfterAnOptionThatThePlanDoesNotSet) {
    for (const RefusedKey& refused : slurm_object.refused) {
        EXPECT_EQ(slurm_object.find(refused.name), nullptr) << refused.name;
        EXPECT_FALSE(refused.instead.empty()) << refused.name;
    }
}

}  // namespace
}  // namespace batchai::job::test
