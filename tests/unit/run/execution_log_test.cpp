// SPDX-License-Identifier: GPL-2.0-or-later
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run/logs.hpp"
#include "scratch.hpp"

namespace batchai::run {

using testing::EndsWith;
using testing::MatchesRegex;

class ExecutionLogTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        append("node/n1.log", "of an earlier attempt\n");
        logs_ = LogDirectory(path("logs"));
        ASSERT_TRUE(logs_.make());
    }
    ExecutionLog log(std::vector<std::string> nodes) const {
        return {logs_, path("node"), std::move(nodes)};
    }

    LogDirectory logs_{""};
};

TEST_F(ExecutionLogTest, IsOneFileForOneNodeAndOneForEachOfSeveral) {
    log({"n1"}).all_nodes("hello");
    EXPECT_THAT(text_of("logs/execution.log"), MatchesRegex("20[0-9-]+T[0-9:.]+\\+00:00 hello\n"));
    log({"n1", "n2"}).all_nodes("to both");
    EXPECT_THAT(text_of("logs/execution-n1.log"), EndsWith(" to both\n"));
    EXPECT_THAT(text_of("logs/execution-n2.log"), EndsWith(" to both\n"));
}

TEST_F(ExecutionLogTest, TellsTheFirstNodeWhatConcernsTheJobAsAWhole) {
    log({"n1", "n2"}).master("for the first");
    EXPECT_THAT(text_of("logs/execution-n1.log"), EndsWith(" for the first\n"));
    EXPECT_EQ(text_of("logs/execution-n2.log"), "(no file)");
}

TEST_F(ExecutionLogTest, CollectsWhatNodesHaveTracedSinceTheLastTime) {
    auto two = log({"n1", "n2"});
    append("node/n1.log", "first\n");
    two.collect_traces();
    EXPECT_EQ(text_of("logs/execution-n1.log"), "first\n");
    two.collect_traces();
    append("node/n1.log", "second\n");
    append("node/n2.log", "other node\n");
    two.collect_traces();
    EXPECT_EQ(text_of("logs/execution-n1.log"), "first\nsecond\n");
    EXPECT_EQ(text_of("logs/execution-n2.log"), "other node\n");
}

}  // namespace batchai::run
