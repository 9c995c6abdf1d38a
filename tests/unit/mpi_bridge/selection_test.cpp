// SPDX-License-Identifier: Apache-2.0
#include "collectives/select/selection.hpp"

#include <thread>

#include <gtest/gtest.h>

#include "collectives/select/measurement.hpp"
#include "core/settings.hpp"
#include "in_process_transport.hpp"

namespace {

using namespace mpi_bridge;

constexpr std::size_t segment_bytes = 256UL * 1024;

TEST(AllreduceTable, ReadsWhatItWrites) {
    const auto table = AllreduceTable::parse("ring:1000,recursive_doubling:2K,halving_doubling");
    ASSERT_TRUE(table) << table.error().text;
    EXPECT_EQ(table->text(), "ring:1000,recursive_doubling:2K,halving_doubling");
    EXPECT_EQ(table->choose(0).name, "ring");
    EXPECT_EQ(table->choose(1000).name, "ring");
    EXPECT_EQ(table->choose(1001).name, "recursive_doubling");
    EXPECT_EQ(table->choose(2048).name, "recursive_doubling");
    EXPECT_EQ(table->choose(2049).name, "halving_doubling");
    for (const int ranks : {2, 5, 1000}) {
        const AllreduceTable made(tcp_model(), ranks, segment_bytes);
        const auto read = AllreduceTable::parse(made.text());
        ASSERT_TRUE(read) << made.text();
        EXPECT_EQ(read->text(), made.text());
    }
}

TEST(AllreduceTable, RefusesWhatItCannotKeep) {
    for (const char* text : {"", "tree", "ring:1K", "ring,ring", "ring:2K,ring:1K,ring",
                             "ring:x,ring", "ring:,ring", "ring,"}) {
        const auto table = AllreduceTable::parse(text);
        ASSERT_FALSE(table) << text;
        EXPECT_EQ(table.error().status, MPIB_ERROR_INVALID_ARGUMENT);
        EXPECT_NE(table.error().text.find("MPI_BRIDGE_ALLREDUCE="), std::string::npos);
    }
}

TEST(Selection, TakesFewStepsForShortVectorsAndFewBytesForLongOnes) {
    Selection selection(tcp_model(), segment_bytes);
    constexpr std::size_t long_vector = 64UL << 20;
    EXPECT_EQ(selection.choose<Allreduce>(8, 4).name, "recursive_quadrupling");
    EXPECT_EQ(selection.choose<Allreduce>(64UL << 10, 4).name, "direct");
    EXPECT_EQ(selection.choose<Allreduce>(long_vector, 4).name, "ring");
    EXPECT_EQ(selection.choose<Allreduce>(long_vector, 64).name, "ring");
    EXPECT_EQ(selection.choose<Allreduce>(long_vector, 10000).name, "halving_doubling");
    EXPECT_EQ(selection.choose<Reduce>(8, 16).name, "binomial");
    EXPECT_EQ(selection.choose<Reduce>(long_vector, 16).name, "halving");
    EXPECT_EQ(selection.choose<ReduceScatter>(8, 16).name, "halving");
    EXPECT_EQ(selection.choose<ReduceScatter>(long_vector, 16).name, "ring");
    EXPECT_EQ(selection.choose<Allgather>(8, 16).name, "bruck");
    EXPECT_EQ(selection.choose<Allgather>(long_vector, 16).name, "ring");
    EXPECT_EQ(selection.choose<Broadcast>(8, 16).name, "binomial");
    EXPECT_EQ(selection.choose<Broadcast>(long_vector, 16).name, "chain");
    EXPECT_EQ(selection.choose<Broadcast>(long_vector, 10000).name, "scatter_allgather");
    EXPECT_EQ(selection.choose<Alltoall>(0, 16).name, "pairwise");
    EXPECT_EQ(selection.choose<Alltoall>(8UL * 1000, 1000).name, "bruck");
    EXPECT_EQ(selection.choose<Alltoall>(4096UL * 1000, 1000).name, "pairwise");
}

TEST(Selection, NeverEstimatesLessThanWhatIsPossible) {
    for (const Model& model : {tcp_model(), rdma_model(), shared_memory_model()}) {
        for (const int ranks : {2, 3, 4, 16, 1000, 10000}) {
            for (double bytes = 1; bytes < 1e10; bytes *= 10) {
                const Case call{ranks, bytes, segment_bytes};
                const double least = least_allreduce_seconds(call, model);
                for (const auto& algorithm : algorithms<Allreduce>()) {
                    EXPECT_GE(algorithm.estimate(call).seconds(model), least * (1 - 1e-9))
                        << algorithm.name << ", " << ranks << " ranks, " << bytes << " bytes";
                }
            }
        }
    }
}

TEST(Selection, JoinsShorterMessagesTheMoreOfThemALeaderHasToCopy) {
    const Selection selection(tcp_model(), segment_bytes);
    EXPECT_EQ(selection.longest_joined_message(1), 0U);
    EXPECT_EQ(selection.longest_joined_message(2), 8192U);
    EXPECT_EQ(selection.longest_joined_message(8), 4096U);
    EXPECT_EQ(selection.longest_joined_message(64), 512U);
    const Selection faster(rdma_model(), segment_bytes);
    EXPECT_LT(faster.longest_joined_message(8), selection.longest_joined_message(8));
    EXPECT_GT(faster.longest_joined_message(8), 0U);
}

TEST(Selection, CanBePinnedForEveryNumberOfRanks) {
    Selection selection(rdma_model(), segment_bytes);
    selection.pin(*AllreduceTable::parse("ring"));
    EXPECT_EQ(selection.choose<Allreduce>(8, 4).name, "ring");
    EXPECT_EQ(selection.choose<Allreduce>(8, 1000).name, "ring");
    EXPECT_NE(selection.text(8).find("allreduce      ring\n"), std::string::npos);
    EXPECT_NE(selection.text(8).find("broadcast"), std::string::npos);
}

// Breaks when the segments of a long transfer are charged like messages to several ranks, which are
// expensive if ranks share processors.
TEST(Selection, PipelinesWhereMessagesThatFollowEachOtherCostLittle) {
    constexpr std::size_t bytes = 256UL * 1024;
    Model model{32e-6, 1 / 1e9, 1 / 8e9, 1, 1};
    EXPECT_NE(Selection(model, segment_bytes).choose<Broadcast>(bytes, 4).name, "chain");
    model.streamed = 1.0 / 16;
    EXPECT_EQ(Selection(model, segment_bytes).choose<Broadcast>(bytes, 4).name, "chain");
}

TEST(Model, ReadsWhatItWrites) {
    for (const std::string text :
         {"alpha=20us,beta=1.2GB/s,gamma=800MB/s", "alpha=1us,beta=2GB/s,gamma=3GB/s,further=0.5",
          "alpha=1us,beta=2GB/s,gamma=3GB/s,further=1,streamed=0.0625"})
        EXPECT_EQ(Model::parse(text)->text(), text);
    const auto model = Model::parse("alpha=20us,beta=1.2GB/s,gamma=800MB/s");
    ASSERT_TRUE(model) << model.error().text;
    EXPECT_DOUBLE_EQ(model->alpha, 20e-6);
    EXPECT_DOUBLE_EQ(model->beta, 1 / 1.2e9);
    EXPECT_DOUBLE_EQ(model->gamma, 1 / 800e6);
    EXPECT_EQ(Model::parse("rdma")->text(), rdma_model().text());
}

TEST(Model, RefusesWhatIsIncompleteOrHasNoUnit) {
    for (const char* text :
         {"", "wifi", "alpha=20us", "alpha=20us,beta=1GB/s", "alpha=20,beta=1,x",
          "alpha=20us,beta=1GB,gamma=1GB/s", "alpha=-1us,beta=1GB/s,gamma=1GB/s",
          "alpha=0us,beta=1GB/s,gamma=1GB/s", "alpha=nanus,beta=1GB/s,gamma=1GB/s",
          "alpha=1us,beta=1GB/s,gamma=1GB/s,"}) {
        const auto model = Model::parse(text);
        ASSERT_FALSE(model) << text;
        EXPECT_EQ(model.error().status, MPIB_ERROR_INVALID_ARGUMENT);
    }
}

TEST(Model, RoundsToPowersOfTwoSoThatMeasurementsOfOneNetworkAgree) {
    const Model a = Model{20e-6, 1 / 1.15e9, 1 / 8.1e9}.rounded();
    const Model b = Model{14e-6, 1 / 1.3e9, 1 / 9.9e9}.rounded();
    EXPECT_EQ(a.alpha, b.alpha);
    EXPECT_EQ(a.beta, b.beta);
    EXPECT_EQ(a.gamma, b.gamma);
    EXPECT_EQ(a.alpha, 16384e-9);
    // What is printed chooses as what was measured.
    const auto read = Model::parse(a.text());
    ASSERT_TRUE(read);
    for (const int ranks : {2, 7, 64})
        EXPECT_EQ(Selection(*read, segment_bytes).text(ranks),
                  Selection(a, segment_bytes).text(ranks));
}

TEST(Measurement, GivesAllRanksTheSameUsableModel) {
    constexpr std::size_t ranks = 5;
    mpi_bridge_test::Post post;
    std::vector<Model> models(ranks);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            mpi_bridge_test::InProcessTransport transport(post, static_cast<int>(rank), ranks);
            Scratch scratch;
            Conversation::Call call;
            call.name = "measurement";
            call.patience = Seconds(30);
            Conversation talk(transport, scratch, call);
            const auto model = measure(talk);
            ASSERT_TRUE(model) << model.error().text;
            models[rank] = *model;
        });
    }
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(post.left_over(), 0U);
    for (const Model& model : models) {
        EXPECT_EQ(model.text(), models[0].text());
        EXPECT_GT(model.alpha, 0);
        EXPECT_GT(model.beta, 0);
        EXPECT_GT(model.gamma, 0);
    }
}

TEST(Settings, ReadNumbersWithTheirUnits) {
    EXPECT_EQ(parse_bytes("3M"), std::size_t{3} << 20);
    EXPECT_EQ(parse_bytes("3X"), std::nullopt);
    EXPECT_EQ(parse_bytes("99999999999G"), std::nullopt);
    EXPECT_EQ(parse_seconds("0.5")->count(), 0.5);
    for (const char* text : {"", "0", "-1", "nan", "inf", "5s"}) {
        EXPECT_FALSE(parse_seconds(text)) << text;
    }
}

// A rank may keep the others waiting for as long as it likes, unless the user sets a limit.
TEST(Settings, LimitNoWaitForAPeerByDefault) {
    unsetenv("MPI_BRIDGE_TIMEOUT_SECONDS");
    const auto by_default = settings_from_environment();
    ASSERT_TRUE(by_default);
    EXPECT_EQ(by_default->timeout, no_limit);
    EXPECT_EQ(by_default->start_timeout, Seconds(300));
    setenv("MPI_BRIDGE_TIMEOUT_SECONDS", "7", 1);
    const auto limited = settings_from_environment();
    unsetenv("MPI_BRIDGE_TIMEOUT_SECONDS");
    ASSERT_TRUE(limited);
    EXPECT_EQ(limited->timeout, Seconds(7));
    EXPECT_EQ(limited->start_timeout, Seconds(7));
}

}  // namespace
