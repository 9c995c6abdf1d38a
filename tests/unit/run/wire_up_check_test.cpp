// SPDX-License-Identifier: GPL-2.0-or-later
// What the check's step says, and what people are told of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/phases/wire_up.hpp"

namespace batchai::run {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* mismatch =
    "mpi_bridge_wireup: PMIx_Init failed: UNREACH (-25); PMIx client library 9.9.9, server "
    "4.2.2rc2 "
    "(offers PMIX_SERVER_URI41/4); the client library is {}; the versions differ\n"
    "srun: error: h1: task 0: Exited with exit code 1\n";

std::string said_by(const std::string& library) {
    std::string text = mismatch;
    return text.replace(text.find("{}"), 2, library);
}

base::Result<base::Completed> run_check(const base::Environment& environment) {
    base::Arguments arguments = check_in_container();
    arguments.insert(arguments.end(), {"--expect", "2"});
    base::RunOptions options;
    options.environment = environment;
    return base::run(arguments, options);
}

TEST(WireUpCheck, InAContainerIsNotMadeOnTheBareNode) {
    const auto ended = run_check({"BATCHAI_PLAN_DIGEST=d"});
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->exit_code, 97);
    EXPECT_THAT(ended->standard_error, HasSubstr("batchai.so is not active"));
}

TEST(WireUpCheck, SaysThatTheImageHasNone) {
    // On this machine nothing is at the place where containers have it.
    const auto ended = run_check({"BATCHAI_PLAN_DIGEST=d", "BATCHAI_SANDBOX=d"});
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->exit_code, 69) << ended->standard_error;
    EXPECT_EQ(why_not_in_container(ended->standard_error), "it was not brought in");
}

TEST(WireUpCheck, IsNotTakenForMissingWhenItRan) {
    EXPECT_EQ(why_not_in_container(said_by("/usr/lib/libpmix.so.2")), std::nullopt);
    EXPECT_EQ(why_not_in_container("batchai: the container has no wire-up check: too old\nmore\n"),
              "too old");
}

TEST(WireUpFault, NamesBothVersionsAndWhatToDoAboutTheImagesLibrary) {
    const auto fault = wire_up_fault(said_by("/usr/lib/libpmix.so.2"), true);
    EXPECT_EQ(fault.code, "WireUpFailed");
    EXPECT_THAT(fault.line, AllOf(HasSubstr("library 9.9.9"), HasSubstr("server 4.2.2rc2"),
                                  HasSubstr("the image's own"), HasSubstr("of version 4 ("),
                                  Not(HasSubstr("srun"))));
}

TEST(WireUpFault, NamesTheVersionThatTheNodeWouldGive) {
    const auto fault = wire_up_fault(said_by("/usr/lib/libpmix.so.2") +
                                         "batchai: the node's bundle is {\"schema\": "
                                         "\"batchai-bundle/v1\", \"glibc\": \"2.34\", "
                                         "\"pmix\": \"4.2.2rc2\", \"machine\": 62}\n",
                                     true);
    EXPECT_THAT(fault.line, AllOf(HasSubstr("library 9.9.9"),
                                  HasSubstr("so that the node's 4.2.2rc2 is used")));
}

TEST(WireUpFault, BlamesNoImageForTheNodesLibrary) {
    EXPECT_THAT(wire_up_fault(said_by("/opt/batchai/lib/mpi_bridge/pmix/libpmix.so.2"), true).line,
                Not(HasSubstr("the image's own")));
    EXPECT_THAT(wire_up_fault(said_by("/usr/lib/libpmix.so.2"), false).line,
                Not(HasSubstr("the image's own")));
}

TEST(WireUpFault, TellsOfALibraryThatCannotBeLoaded) {
    const auto fault = wire_up_fault(
        "mpi_bridge_wireup: symbol lookup error: /opt/batchai/libexec/batchai/mpi_bridge_wireup: "
        "undefined symbol: PMIx_Info_load\nbatchai: mpi_bridge_wireup cannot run in the image "
        "(exit code 127); the "
        "server is PMIx 4.2.2\nsrun: error: h1: task 0: Exited with exit code 127\n",
        true);
    EXPECT_EQ(fault.code, "WireUpFailed");
    EXPECT_THAT(fault.line, AllOf(HasSubstr("server is PMIx 4.2.2"), HasSubstr("PMIx_Info_load"),
                                  HasSubstr("of version 4 (")));
}

TEST(WireUpFault, DoesNotBlamePmixForAContainerThatDidNotStart) {
    const auto fault = wire_up_fault(
        "batchai: node h1: cannot use the image x.sqsh: No such file\nsrun: error: h1: task 0: "
        "Exited with exit code 1\n",
        true);
    EXPECT_EQ(fault.code, "FailedStartingContainer");
    EXPECT_THAT(fault.line, HasSubstr("x.sqsh"));
}

}  // namespace
}  // namespace batchai::run
