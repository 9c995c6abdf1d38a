// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks/suspect.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace batchai::visit {

namespace {

JobProcess rank(int number, const std::string& function, std::optional<BridgeState> bridge = {}) {
    JobProcess process{.process = 100 + number, .parent = 1, .rank = number, .is_task = true};
    process.step = "1";
    process.program = "python3 train.py";
    process.kernel = {{.id = 100 + number, .name = "python3", .state = "S"}};
    process.python = {{.name = {}, .main = true, .frames = {{"/home/a/train.py", 8, function}}}};
    process.bridge = std::move(bridge);
    return process;
}

std::optional<Suspect> suspect_of(const std::vector<NodeStacks>& nodes) {
    return suspect(nodes, stack_groups(nodes));
}

TEST(Suspect, IsTheRankThatIsElsewhere) {
    const auto found = suspect_of(
        {{"n1", {rank(0, "meet"), rank(1, "meet")}}, {"n2", {rank(2, "load"), rank(3, "meet")}}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 2);
    EXPECT_EQ(found->node, "n2");
    EXPECT_EQ(found->where, "at train.py:8 in load()");
}

TEST(Suspect, IsTheNodeOfSeveral) {
    const auto found = suspect_of({{"n1", {rank(0, "meet"), rank(1, "meet"), rank(2, "meet")}},
                                   {"n2", {rank(3, "load"), rank(4, "load")}}});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, std::nullopt);
    EXPECT_EQ(found->node, "n2");
}

JobProcess waiting_rank(int number, const std::string& file) {
    JobProcess process = rank(number, "train");
    auto& frames = process.python.front().frames;
    frames.insert(frames.begin(), {file, 20, "call"});
    return process;
}

// Breaks when only a majority can tell who does not come: there is none of two ranks.
TEST(Suspect, IsTheOneThatIsNotInACallInWhichTheOthersWait) {
    for (const char* file : {"/opt/lib/batchai/python/mpi_bridge/native.py",
                             "/v/site-packages/torch/distributed/distributed_c10d.py"}) {
        const auto found = suspect_of({{"n1", {waiting_rank(0, file)}}, {"n2", {rank(1, "load")}}});
        ASSERT_TRUE(found) << file;
        EXPECT_EQ(found->rank, 1);
        EXPECT_EQ(found->node, "n2");
        EXPECT_EQ(found->where, "at train.py:8 in load()");
        EXPECT_FALSE(suspect_of({{"n1", {waiting_rank(0, file), waiting_rank(1, file)}}}));
        EXPECT_FALSE(suspect_of({{"n1", {waiting_rank(0, file), rank(1, "load")}},
                                 {"n2", {rank(2, "load"), rank(3, "meet")}}}));
    }
    EXPECT_FALSE(suspect_of({{"n1", {waiting_rank(0, "/v/site-packages/torch/utils/data.py")}},
                             {"n2", {rank(1, "load")}}}));
    JobProcess unreadable = rank(1, "load");
    unreadable.python.clear();
    EXPECT_FALSE(
        suspect_of({{"n1", {waiting_rank(0, "/p/mpi_bridge/native.py")}}, {"n2", {unreadable}}}));
}

// Breaks when somebody is blamed by chance.
JobProcess native_rank(int number, const std::string& function) {
    JobProcess process = rank(number, "");
    process.python.clear();
    process.program = "./solver";
    process.native = {
        {.id = process.process,
         .name = {},
         .main = true,
         .frames = {{"/lib/libmpi.so", 0, function, "libmpi.so"}, {"solver.c", 8, "step", {}}}}};
    return process;
}

TEST(Suspect, IsTheOneOfAProgramInCThatIsNotInACallOfMpi) {
    for (const char* call :
         {"MPI_Allreduce", "mpi_allreduce_", "mpib_allreduce", "ncclAllReduce"}) {
        const auto found =
            suspect_of({{"n1", {native_rank(0, call)}}, {"n2", {native_rank(1, "read")}}});
        ASSERT_TRUE(found) << call;
        EXPECT_EQ(found->rank, 1);
        EXPECT_EQ(found->where, "in read(), called at solver.c:8 in step()");
    }
}

// Breaks when a node without libdw is blamed, whose ranks may be where all others are.
TEST(Suspect, IsNobodyIfSomeStacksAreMissing) {
    JobProcess silent = native_rank(2, "");
    silent.native.clear();
    silent.no_native = "there is no libdw";
    EXPECT_EQ(suspect_of({{"n1", {native_rank(0, "MPI_Barrier"), native_rank(1, "MPI_Barrier")}},
                          {"n2", {silent}}}),
              std::nullopt);
    // A Python that cannot say where it is may be in a call, too.
    JobProcess python = native_rank(2, "futex_wait");
    python.program = "python3 -I train.py";
    EXPECT_EQ(suspect_of({{"n1", {native_rank(0, "MPI_Barrier"), native_rank(1, "MPI_Barrier")}},
                          {"n2", {python}}}),
              std::nullopt);
}

TEST(Suspect, IsNobodyWhomTheStacksDoNotSingleOut) {
    EXPECT_FALSE(suspect_of({}));
    EXPECT_FALSE(suspect_of({{"n1", {rank(0, "meet")}}}));
    EXPECT_FALSE(suspect_of({{"n1", {rank(0, "meet"), rank(1, "meet")}}}));
    EXPECT_FALSE(suspect_of({{"n1", {rank(0, "meet")}}, {"n2", {rank(1, "load")}}}));
    EXPECT_FALSE(suspect_of(
        {{"n1", {rank(0, "meet"), rank(1, "meet"), rank(2, "a"), rank(3, "b"), rank(4, "meet")}}}));
    EXPECT_FALSE(suspect_of({{"n1", {rank(0, "meet"), rank(1, "load"), rank(4, "meet")}},
                             {"n2", {rank(2, "load"), rank(3, "meet")}}}));
    // Ranks that spin are anywhere.
    EXPECT_FALSE(suspect_of({{"n1", {rank(0, "a"), rank(1, "a"), rank(2, "a"), rank(3, "b")}},
                             {"n2", {rank(4, "b"), rank(5, "c"), rank(6, "c"), rank(7, "d")}}}));
}

TEST(Suspect, IsTheRankForWhichTheOthersOfMpiBridgeWait) {
    const BridgeState free{.rank = 5, .waits_for = {}, .operations = {}};
    const auto waits = [](int number, int other) {
        return BridgeState{.rank = number, .waits_for = {other}, .operations = {}};
    };
    // Of two ranks, the stacks alone do not tell which one is late.
    const std::vector<NodeStacks> nodes{{"n1", {rank(0, "meet", waits(3, 5))}},
                                        {"n2", {rank(1, "load", free)}}};
    const auto found = suspect_of(nodes);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, 1);
    EXPECT_EQ(found->where, "at train.py:8 in load()");
    EXPECT_FALSE(suspect_of(
        {{"n1", {rank(0, "meet", waits(3, 5))}}, {"n2", {rank(1, "load", waits(5, 3))}}}));
}

TEST(Suspect, IsNotNeededForASummary) {
    const auto groups = stack_groups(
        {{"n1", {rank(0, "a"), rank(1, "b"), rank(2, "c"), rank(3, "d"), rank(4, "b")}}});
    EXPECT_EQ(summary(groups),
              "ranks 1, 4 on n1: at train.py:8 in b(); rank 0 on n1: at train.py:8 in a(); rank 2 "
              "on n1: at train.py:8 in c(); and 1 more");
    EXPECT_EQ(summary({}), "");
}

}  // namespace

}  // namespace batchai::visit
