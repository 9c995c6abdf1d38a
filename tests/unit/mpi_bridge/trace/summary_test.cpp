// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/summary.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/timeline/summary_table.hpp"

namespace mpi_bridge::timeline_tool {
namespace {

using testing::HasSubstr;

// Rows are numbered as their tensors are first told, for each rank.
class SummaryTest : public testing::Test {
  protected:
    void tell(int rank, char type, const std::string& tensor, double time, const std::string& name,
              jsoncons::ojson arguments = jsoncons::ojson()) {
        auto [row, added] = rows_.try_emplace({rank, tensor}, rows_.size() + 1);
        if (added) {
            jsoncons::ojson title;
            title["name"] = tensor;
            add(rank, 'M', row->second, 0, "thread_name", title);
        }
        add(rank, type, row->second, time, name, std::move(arguments));
    }

    // From submission to being known everywhere to the end, in microseconds.
    void operation(int rank, const std::string& tensor, double submitted, double agreed,
                   double ended) {
        jsoncons::ojson arguments;
        arguments["bytes"] = 1000;
        tell(rank, 'B', tensor, submitted, "NEGOTIATE_ALLREDUCE", arguments);
        tell(rank, 'E', tensor, agreed, "NEGOTIATE_ALLREDUCE");
        tell(rank, 'B', tensor, agreed, "ALLREDUCE", arguments);
        tell(rank, 'B', tensor, agreed, "QUEUE");
        tell(rank, 'E', tensor, agreed + 1, "QUEUE");
        tell(rank, 'B', tensor, agreed + 1, "MEMCPY_IN_FUSION_BUFFER");
        tell(rank, 'E', tensor, agreed + 3, "MEMCPY_IN_FUSION_BUFFER");
        tell(rank, 'B', tensor, agreed + 3, "SHM_ALLREDUCE");
        tell(rank, 'E', tensor, ended, "SHM_ALLREDUCE");
        tell(rank, 'E', tensor, ended, "ALLREDUCE");
    }

    void tick(int rank, const std::string& tensor, double time, int reported) {
        jsoncons::ojson arguments;
        arguments["rank"] = reported;
        tell(rank, 'i', tensor, time, std::to_string(reported), arguments);
    }

    Summary summary_;

  private:
    void add(int rank, char type, std::size_t row, double time, const std::string& name,
             jsoncons::ojson arguments) {
        TraceEvent event;
        event.type = type;
        event.rank = rank;
        event.row = static_cast<std::int64_t>(row);
        event.time = time;
        event.name = name;
        if (!arguments.empty()) event.object["args"] = std::move(arguments);
        summary_.add(event);
    }

    std::map<std::pair<int, std::string>, std::size_t> rows_;
};

TEST_F(SummaryTest, AddsUpTheTimesOfATensor) {
    operation(0, "w", 0, 10, 50);
    operation(0, "w", 100, 120, 200);
    summary_.finish();
    const TensorSummary& tensor = summary_.tensors().at("w");
    EXPECT_EQ(tensor.operation, "ALLREDUCE");
    const TimeSpent& spent = tensor.ranks.at(0);
    EXPECT_EQ(spent.operations, 2U);
    EXPECT_EQ(spent.bytes, 2000);
    EXPECT_DOUBLE_EQ(spent.negotiate, 30);
    EXPECT_DOUBLE_EQ(spent.operation, 120);
    EXPECT_DOUBLE_EQ(spent.wait, 2);
    EXPECT_DOUBLE_EQ(spent.copy, 4);
    EXPECT_DOUBLE_EQ(spent.transfer, 114);
    EXPECT_DOUBLE_EQ(spent.mean(), 75);
    EXPECT_DOUBLE_EQ(summary_.duration(), 200);
    EXPECT_TRUE(summary_.unfinished().empty());
}

TEST_F(SummaryTest, TheRankWithTheShortestTimesIsLate) {
    operation(0, "w", 0, 90, 100);
    operation(1, "w", 1080, 1090, 1100);  // whatever its clock
    operation(2, "w", 10, 90, 100);
    const auto late = late_rank(summary_.tensors().at("w"));
    ASSERT_TRUE(late);
    EXPECT_EQ(late->rank, 1);
    EXPECT_DOUBLE_EQ(late->by, (80 + 70) / 2.0);
    EXPECT_LT(late->share, 0);
}

TEST_F(SummaryTest, ARankThatEndedNothingIsNotTakenForLate) {
    operation(0, "w", 0, 90, 100);
    operation(1, "w", 50, 90, 100);
    tell(2, 'B', "w", 0, "NEGOTIATE_ALLREDUCE");
    EXPECT_EQ(late_rank(summary_.tensors().at("w"))->rank, 1);
}

TEST_F(SummaryTest, OneRankAloneIsNotLate) {
    operation(0, "w", 0, 10, 20);
    EXPECT_FALSE(late_rank(summary_.tensors().at("w")));
}

TEST_F(SummaryTest, TicksAreBelievedBeforeTimes) {
    for (int step = 0; step < 4; ++step) {
        const double start = step * 100;
        tell(0, 'B', "w", start, "NEGOTIATE_ALLREDUCE");
        tick(0, "w", start, 0);
        tick(0, "w", start + 10, step == 0 ? 1 : 2);
        tick(0, "w", start + 30, step == 0 ? 2 : 1);
        tell(0, 'E', "w", start + 30, "NEGOTIATE_ALLREDUCE");
    }
    const auto late = late_rank(summary_.tensors().at("w"));
    ASSERT_TRUE(late);
    EXPECT_EQ(late->rank, 1);
    EXPECT_DOUBLE_EQ(late->by, 30);
    EXPECT_DOUBLE_EQ(late->share, 0.75);
}

TEST_F(SummaryTest, NumberedNamesAreOneTensorAndDeviceRowsBelongToTheirs) {
    operation(0, "allreduce.noname.7", 0, 1, 10);
    operation(0, "allreduce.noname.12", 20, 21, 30);
    EXPECT_EQ(summary_.tensors().at("allreduce.noname.*").ranks.at(0).operations, 2U);
    operation(0, "w", 40, 41, 50);
    TraceEvent event;
    event.type = 'M';
    event.row = 99;
    event.name = "thread_name";
    event.object["args"]["name"] = "w (device)";
    summary_.add(event);
    event.type = 'X';
    event.name = "NCCL_ALLREDUCE";
    event.object["dur"] = 25.0;
    summary_.add(event);
    EXPECT_DOUBLE_EQ(summary_.tensors().at("w").ranks.at(0).transfer, 6 + 25);
    EXPECT_EQ(summary_.tensors().size(), 2U);
}

TEST_F(SummaryTest, WhatHasNoEndIsListedWithItsRanks) {
    tell(0, 'B', "w", 0, "NEGOTIATE_ALLREDUCE");
    tell(2, 'B', "w", 0, "NEGOTIATE_ALLREDUCE");
    summary_.finish();
    EXPECT_EQ(summary_.unfinished().at({"w", "NEGOTIATE_ALLREDUCE"}), (std::set<int>{0, 2}));
    EXPECT_THAT(summary_table(summary_, 20),
                HasSubstr("Without an end:\n  \"w\" NEGOTIATE_ALLREDUCE on ranks 0, 2\n"));
}

TEST_F(SummaryTest, TheEnginesRowIsNoTensor) {
    tell(0, 'B', "engine", 0, "CONTROL_ROUND");
    tell(0, 'E', "engine", 5, "CONTROL_ROUND");
    EXPECT_TRUE(summary_.tensors().empty());
}

TEST_F(SummaryTest, TheTableBeginsWithTheSlowest) {
    operation(0, "quick", 0, 1, 10);
    operation(0, "slow", 0, 1, 1000);
    operation(1, "slow", 500, 501, 1000);
    jsoncons::ojson failed;
    failed["failed"] = true;
    tell(0, 'B', "quick", 2000, "ALLREDUCE");
    tell(0, 'E', "quick", 2001, "ALLREDUCE", failed);
    jsoncons::ojson lost;
    lost["count"] = 9;
    tell(0, 'i', "engine", 3000, "events dropped", lost);
    summary_.finish();
    const std::string table = summary_table(summary_, 1);
    EXPECT_THAT(table, HasSubstr("\"slow\"  allreduce      1  1000 bytes"));
    EXPECT_THAT(table, HasSubstr("1 by 0.500 ms"));
    EXPECT_THAT(table, HasSubstr("and 1 more\n"));
    EXPECT_THAT(table, testing::Not(HasSubstr("quick")));
    EXPECT_THAT(table, HasSubstr("1 operations failed"));
    EXPECT_THAT(table, HasSubstr("9 events were dropped"));
    EXPECT_THAT(summary_table(summary_, 0), HasSubstr("\"quick\""));
}

}  // namespace
}  // namespace mpi_bridge::timeline_tool
