// SPDX-License-Identifier: GPL-2.0-or-later
// What `job node exec` starts: a step beside those of a job that runs.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record/job_files.hpp"
#include "record/step_variables.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

namespace {

// From the shell's name on, as a node would run it with these variables.
base::Completed ran(const Visit& visit, const std::string& sandbox) {
    const auto arguments = visit_arguments(visit);
    const auto shell = std::find(arguments.begin(), arguments.end(), "/bin/sh");
    base::RunOptions options;
    options.environment = {"BATCHAI_SANDBOX=" + sandbox, "BATCHAI_PLAN_DIGEST=d"};
    options.standard_input = "echo from input; exit 6\n";
    auto done = base::run({shell, arguments.end()}, options);
    return done ? *done : base::Completed{.exit_code = -1, .standard_error = done.error().text()};
}

}  // namespace

TEST(VisitArguments, NameTheJobTheNodeAndNoMore) {
    const auto arguments = visit_arguments({"12", "n2", "echo $(evil)", false});
    for (const char* word :
         {"--jobid=12", "--nodelist=n2", "--nodes=1", "--ntasks=1", "--overlap", "--mpi=none"})
        EXPECT_THAT(arguments, Contains(word));
    EXPECT_THAT(arguments, Not(Contains("--pty")));
    EXPECT_EQ(arguments.back(), "echo $(evil)");
    EXPECT_THAT(visit_arguments({"12", "n2", {}, true}), Contains("--pty"));
}

TEST(VisitArguments, RunACommandOrAShellInTheSandboxOnly) {
    const Visit command{"12", "n2", "echo \"ran $((1+1))\"; exit 4", false};
    EXPECT_EQ(ran(command, "d").exit_code, 4);
    EXPECT_EQ(ran(command, "d").standard_output, "ran 2\n");
    EXPECT_EQ(ran(command, "").exit_code, 97);
    EXPECT_EQ(ran(command, "").standard_output, "");
    const auto shell = ran({"12", "n2", {}, false}, "d");
    EXPECT_EQ(shell.exit_code, 6);
    EXPECT_EQ(shell.standard_output, "from input\n");
}

TEST(StepVariables, AreReadAsTheyWereWritten) {
    std::string directory = std::filesystem::temp_directory_path() / "run-XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    const auto none = record::read_step_variables(record::JobFiles(directory));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().where, directory + "/step-variables");
    ASSERT_TRUE(record::write_step_variables(record::JobFiles(directory),
                                             {"A=b=c", "LINES=1\n2", "EMPTY="}));
    EXPECT_THAT(record::read_step_variables(record::JobFiles(directory)).value(),
                ElementsAre("A=b=c", "LINES=1\n2", "EMPTY="));
    std::filesystem::remove_all(directory);
}

}  // namespace batchai::run
