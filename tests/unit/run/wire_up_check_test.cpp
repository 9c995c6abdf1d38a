// SPDX-License-Identifier: GPL-2.0-or-later
// What the check's tasks report, and what people are told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/phases/wire_up.hpp"
#include "scratch.hpp"

namespace batchai::run {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class WireUpCheck : public ScratchTest {
  protected:
    // In the place of a container on this machine, where nothing is at the place of the check.
    [[nodiscard]] base::Completed run_check(base::Environment environment) const {
        base::Arguments arguments = check_in_container();
        arguments.insert(arguments.end(), {"--expect", "2", "--report", path("wire-up")});
        environment.push_back("BATCHAI_REFUSALS=" + path("refused"));
        environment.emplace_back("SLURM_PROCID=1");
        environment.emplace_back("BATCHAI_PLAN_DIGEST=d");
        base::RunOptions options;
        options.environment = std::move(environment);
        auto ended = base::run(arguments, options);
        return ended ? *ended
                     : base::Completed{.exit_code = -1, .standard_error = ended.error().text()};
    }
    [[nodiscard]] WireUpWords words(const std::string& said = {}) const {
        return words_of_wire_up(path("wire-up"), path("refused"), 2, said);
    }
    // What mpi_bridge_wireup writes.
    void reports(const std::string& library) {
        append(
            "wire-up.1.json",
            R"({"schema": "mpi_bridge-wireup/v1", "fault": "PMIx_Init failed: versions differ", )"
            R"("library": ")" +
                library + R"(", "server": "4.2.2rc2"})");
    }
};

TEST_F(WireUpCheck, InAContainerIsNotMadeOnTheBareNode) {
    const auto ended = run_check({});
    EXPECT_EQ(ended.exit_code, 97);
    EXPECT_THAT(ended.standard_error, HasSubstr("batchai.so is not active"));
    const auto fault = wire_up_fault(words(), true);
    EXPECT_EQ(fault.code, "FailedStartingContainer");
    EXPECT_THAT(fault.line, HasSubstr("batchai.so is not active"));
}

TEST_F(WireUpCheck, SaysThatTheImageHasNone) {
    const auto ended = run_check({"BATCHAI_SANDBOX=d"});
    EXPECT_EQ(ended.exit_code, 69) << ended.standard_error;
    EXPECT_EQ(words().why_none, "it was not added to the container");
    EXPECT_FALSE(words().report);
}

TEST_F(WireUpCheck, OfAnEarlierTryCountsNoMore) {
    reports("/usr/lib/libpmix.so.2");
    ASSERT_TRUE(words().report);
    record::forget_reports(path("wire-up"));
    EXPECT_FALSE(words().report);
}

TEST_F(WireUpCheck, NamesTheFaultAndWhatToDoAboutTheImagesLibrary) {
    reports("/usr/lib/libpmix.so.2");
    const auto fault = wire_up_fault(words("srun: error: words of others\n"), true);
    EXPECT_EQ(fault.code, "WireUpFailed");
    EXPECT_THAT(fault.line, AllOf(HasSubstr("versions differ"), HasSubstr("the image's own"),
                                  HasSubstr("of version 4 ("), Not(HasSubstr("srun"))));
}

TEST_F(WireUpCheck, NamesTheVersionThatTheNodeWouldGive) {
    reports("/usr/lib/libpmix.so.2");
    append("wire-up.1.bundle.json", R"({"schema": "batchai-bundle/v1", "glibc": "2.34", )"
                                    R"("pmix": "4.2.2rc2", "machine": 62})");
    EXPECT_THAT(wire_up_fault(words(), true).line,
                HasSubstr("so that the node's 4.2.2rc2 is used"));
}

TEST_F(WireUpCheck, BlamesNoImageForTheNodesLibrary) {
    reports("/opt/batchai/lib/mpi_bridge/pmix/libpmix.so.2");
    EXPECT_THAT(wire_up_fault(words(), true).line, Not(HasSubstr("the image's own")));
}

TEST_F(WireUpCheck, BlamesNoImageOnTheBareNode) {
    reports("/usr/lib/libpmix.so.2");
    EXPECT_THAT(wire_up_fault(words(), false).line, Not(HasSubstr("the image's own")));
}

TEST_F(WireUpCheck, TellsOfALibraryThatCannotBeLoaded) {
    append("wire-up.0.json",
           R"({"schema": "mpi_bridge-wireup/v1", "exitCode": 127, "server": "4.2.2"})");
    const auto fault = wire_up_fault(
        words("mpi_bridge_wireup: symbol lookup error: /opt/batchai/libexec/x: undefined symbol: "
              "PMIx_Info_load\n"),
        true);
    EXPECT_EQ(fault.code, "WireUpFailed");
    EXPECT_THAT(fault.line, AllOf(HasSubstr("server is PMIx 4.2.2"), HasSubstr("PMIx_Info_load"),
                                  HasSubstr("of version 4 (")));
}

TEST_F(WireUpCheck, DoesNotBlamePmixForAContainerThatDidNotStart) {
    append("refused.0.txt", "cannot use the image x.sqsh: No such file\nhint: ask\n");
    const auto fault = wire_up_fault(words(), true);
    EXPECT_EQ(fault.code, "FailedStartingContainer");
    EXPECT_EQ(fault.line, "cannot use the image x.sqsh: No such file");
}

}  // namespace batchai::run
