// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

void expect_sum(Ranks::Rank& rank, int set, const std::string& name, float value, float expected) {
    Floats tensor(name, {value, value});
    tensor.operation.process_set = set;
    const auto done = rank.engine().call(tensor.made());
    ASSERT_TRUE(done) << done.error().text;
    ASSERT_EQ(tensor.recv, (std::vector<float>{expected, expected}));
}

TEST(EngineProcessSets, ReduceAmongTheirMembersOnly) {
    constexpr int size = 4;
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        const std::vector<int> even = {0, 2};
        const std::vector<int> most = {0, 1, 3};
        const auto first = rank.engine().add_process_set(even);
        ASSERT_TRUE(first) << first.error().text;
        const auto second = rank.engine().add_process_set(most);
        ASSERT_TRUE(second) << second.error().text;
        EXPECT_EQ(*first, 1);
        EXPECT_EQ(*second, 2);
        EXPECT_EQ(rank.engine().process_set_ids(), (std::vector<int>{0, 1, 2}));
        EXPECT_EQ(rank.engine().process_set_ranks(*second), most);
        EXPECT_EQ(rank.engine().process_set_rank(*first),
                  rank.rank() % 2 == 0 ? rank.rank() / 2 : -1);
        EXPECT_EQ(rank.engine().process_set_rank(9), std::nullopt);
        // The same names in overlapping sets, in opposite orders.
        const auto own = static_cast<float>(1 << rank.rank());
        const bool is_even = rank.rank() % 2 == 0;
        const bool is_most = rank.rank() != 2;
        for (int step = 0; step < 15; ++step) {
            std::vector<std::unique_ptr<Floats>> tensors;
            std::vector<mpib_handle> handles;
            for (int turn = 0; turn < 3; ++turn) {
                const int set = (turn + rank.rank()) % 3;
                if ((set == *first && !is_even) || (set == *second && !is_most)) continue;
                tensors.push_back(std::make_unique<Floats>("x", std::vector<float>{own}));
                tensors.back()->operation.process_set = set;
                tensors.back()->operation.flags = step % 2 == 0 ? MPIB_WAITED_FOR : 0;
                handles.push_back(submit(rank.engine(), tensors.back()->made()));
            }
            for (std::size_t at = 0; at < handles.size(); ++at) {
                const auto done = finish(rank.engine(), handles[at]);
                ASSERT_TRUE(done) << done.error().text;
                constexpr float sums[] = {15, 5, 11};
                ASSERT_EQ(tensors[at]->recv[0], sums[tensors[at]->operation.process_set]);
            }
        }
        Floats foreign("foreign", {1});
        foreign.operation.process_set = *first;
        const auto handle = rank.engine().submit(foreign.made());
        ASSERT_EQ(handle.has_value(), is_even);
        if (handle) {
            ASSERT_TRUE(finish(rank.engine(), *handle));
        } else {
            EXPECT_NE(handle.error().text.find("not a member"), std::string::npos);
        }
    });
}

TEST(EngineProcessSets, CanBeRemovedAndAddedAgain) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        int latest = 0;
        for (int round = 0; round < 6; ++round) {
            const std::vector<int> members = {0, 1 + round % 2};
            const auto set = rank.engine().add_process_set(members);
            ASSERT_TRUE(set) << set.error().text;
            EXPECT_NE(*set, latest);
            latest = *set;
            if (rank.engine().process_set_rank(*set) >= 0) {
                for (int step = 0; step < 5; ++step)
                    expect_sum(rank, *set, "x", 1, 2);
            }
            const auto removed = rank.engine().remove_process_set(*set);
            ASSERT_TRUE(removed) << removed.error().text;
            EXPECT_EQ(rank.engine().process_set_rank(*set), std::nullopt);
            Floats late("late", {1});
            late.operation.process_set = *set;
            EXPECT_FALSE(rank.engine().submit(late.made()));
        }
        expect_sum(rank, MPIB_WORLD, "x", 1, 3);
    });
}

// Breaks when a member that has started a bucket of the set's plan is left there.
TEST(EngineProcessSets, CanBeRemovedWhileAMemberIsInsideItsPlan) {
    Wishes wishes;
    wishes.timeout = mpi_bridge::Seconds(20);
    Ranks ranks(3, wishes);
    ranks.run([&](Ranks::Rank& rank) {
        const std::vector<int> members = {0, 1};
        const auto set = rank.engine().add_process_set(members);
        ASSERT_TRUE(set) << set.error().text;
        const bool is_member = rank.engine().process_set_rank(*set) >= 0;
        for (int step = 0; is_member && step < 6; ++step)
            expect_sum(rank, *set, "x", 1, 2);
        Floats alone("x", {1, 1});
        alone.operation.process_set = *set;
        mpib_handle handle = 0;
        if (rank.rank() == 0) {
            EXPECT_GT(rank.counters().planned_buckets, 0U);
            handle = submit(rank.engine(), alone.made());
            // The thread that works off the plan needs a moment to start the bucket.
            EXPECT_FALSE(rank.engine().wait(handle, 0.1));
        }
        const auto removed = rank.engine().remove_process_set(*set);
        ASSERT_TRUE(removed) << removed.error().text;
        if (rank.rank() == 0) {
            const auto done = finish(rank.engine(), handle);
            ASSERT_FALSE(done);
            EXPECT_EQ(done.error().status, MPIB_ERROR_INVALID_ARGUMENT) << done.error().text;
            EXPECT_EQ(alone.recv, (std::vector<float>{-1, -1}));
        }
        expect_sum(rank, MPIB_WORLD, "y", 1, 3);
    });
    EXPECT_TRUE(ranks.at(0).failures().empty());
}

TEST(EngineProcessSets, RefuseWhatMakesNoSenseOnAllRanks) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        auto& engine = rank.engine();
        const std::vector<std::vector<int>> senseless = {{1, 0}, {0, 0}, {-1, 0}, {0, 2}, {0, 1}};
        for (const auto& members : senseless) {
            const auto set = engine.add_process_set(members);
            ASSERT_FALSE(set);
            EXPECT_EQ(set.error().status, MPIB_ERROR_INVALID_ARGUMENT);
        }
        for (const int id : {MPIB_WORLD, 5, -1, 300})
            EXPECT_FALSE(engine.remove_process_set(id));
        // Ranks that disagree are told so.
        const std::vector<int> own = {rank.rank()};
        const auto set = engine.add_process_set(own);
        ASSERT_FALSE(set);
        EXPECT_EQ(set.error().status, MPIB_ERROR_MISMATCH) << set.error().text;
        expect_sum(rank, MPIB_WORLD, "x", 1, 2);
    });
    EXPECT_TRUE(ranks.at(0).failures().empty());
}

// Sets that only their members know: overlapping and disjoint ones, the latter with the same id.
TEST(EngineProcessSets, CanBeOpenedByTheirMembersAlone) {
    Ranks ranks(4);
    ranks.run([&](Ranks::Rank& rank) {
        const std::vector<int> half = rank.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3};
        const auto opened = rank.engine().open_process_set(half, MPIB_FIRST_PRIVATE_SET);
        ASSERT_TRUE(opened) << opened.error().text;
        EXPECT_EQ(rank.engine().process_set_ranks(MPIB_FIRST_PRIVATE_SET), half);
        const float sum = rank.rank() < 2 ? 3 : 12;
        const auto own = static_cast<float>(1 << rank.rank());
        for (int step = 0; step < 5; ++step)
            expect_sum(rank, MPIB_FIRST_PRIVATE_SET, "x", own, sum);
        if (rank.rank() > 0) {
            ASSERT_TRUE(rank.engine().open_process_set(std::vector{1, 2, 3}, 300));
            expect_sum(rank, 300, "x", own, 14);
        }
        expect_sum(rank, MPIB_WORLD, "x", own, 15);
        ASSERT_TRUE(rank.engine().close_process_set(MPIB_FIRST_PRIVATE_SET));
        EXPECT_EQ(rank.engine().process_set_ranks(MPIB_FIRST_PRIVATE_SET), std::nullopt);
        Floats late("late", {1});
        late.operation.process_set = MPIB_FIRST_PRIVATE_SET;
        EXPECT_FALSE(rank.engine().submit(late.made()));
        if (rank.rank() > 0) expect_sum(rank, 300, "x", own, 14);
        // Sets of all ranks are not affected.
        const auto all = rank.engine().add_process_set(std::vector{0, 3});
        ASSERT_TRUE(all) << all.error().text;
        EXPECT_EQ(*all, 1);
    });
}

// The id of a set, and its engine, are in use until all members have closed it.
TEST(EngineProcessSets, ThatOnlyTheirMembersKnowEndWhenAllHaveClosedThem) {
    constexpr int id = MPIB_FIRST_PRIVATE_SET;
    Ranks ranks(3);
    const auto open_and_use = [&](Ranks::Rank& rank) {
        ASSERT_TRUE(rank.engine().process_set_is_free(id));
        ASSERT_TRUE(rank.engine().open_process_set(std::vector{0, 1, 2}, id));
        for (int step = 0; step < 12; ++step)
            expect_sum(rank, id, "x", 1, 3);
        EXPECT_FALSE(rank.engine().process_set_is_free(id));
    };
    for (int time = 0; time < 3; ++time) {
        ranks.run(open_and_use);
        const auto rounds = ranks.at(2).counters().negotiation_rounds;
        for (const int rank : {0, 1}) {
            ASSERT_TRUE(ranks.at(rank).engine().close_process_set(id));
            EXPECT_FALSE(ranks.at(rank).engine().process_set_is_free(id));
            EXPECT_FALSE(ranks.at(rank).engine().open_process_set(std::vector{0, 1}, id));
        }
        // Time for rounds that must not be.
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_EQ(ranks.at(2).counters().negotiation_rounds, rounds);
        ASSERT_TRUE(ranks.at(2).engine().close_process_set(id));
        const auto deadline = mpi_bridge::Deadline::in(mpi_bridge::Seconds(20));
        for (const int rank : {0, 1, 2}) {
            while (!ranks.at(rank).engine().process_set_is_free(id) && !deadline.passed())
                std::this_thread::yield();
            EXPECT_TRUE(ranks.at(rank).engine().process_set_is_free(id));
        }
    }
}

TEST(EngineProcessSets, ThatAMemberHasClosedAndLeftDoNotFailTheOthers) {
    constexpr int id = MPIB_FIRST_PRIVATE_SET;
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        ASSERT_TRUE(rank.engine().open_process_set(std::vector{0, 1, 2}, id));
        for (int step = 0; step < 5; ++step)
            expect_sum(rank, id, "x", 1, 3);
    });
    ASSERT_TRUE(ranks.at(0).engine().close_process_set(id));
    ASSERT_TRUE(ranks.at(0).engine().shutdown());
    ranks.at(0).transport().abandon();
    ranks.run([&](Ranks::Rank& rank) {
        if (rank.rank() == 0) return;
        ASSERT_TRUE(rank.rank() == 2 || rank.engine().close_process_set(id));
        ASSERT_TRUE(rank.engine().open_process_set(std::vector{1, 2}, id + 1));
        for (int step = 0; step < 5; ++step)
            expect_sum(rank, id + 1, "x", 1, 2);
        ASSERT_TRUE(rank.engine().close_process_set(id + 1));
        const auto deadline = mpi_bridge::Deadline::in(mpi_bridge::Seconds(20));
        while (!rank.engine().process_set_is_free(id + 1) && !deadline.passed())
            std::this_thread::yield();
        EXPECT_TRUE(rank.engine().process_set_is_free(id + 1));
    });
    EXPECT_TRUE(ranks.at(1).failures().empty());
    EXPECT_TRUE(ranks.at(2).failures().empty());
}

// An operation that was under way is done although this rank has closed the set.
TEST(EngineProcessSets, FinishWhatIsInFlightWhenAMemberClosesThem) {
    constexpr int id = MPIB_FIRST_PRIVATE_SET;
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        ASSERT_TRUE(rank.engine().open_process_set(std::vector{0, 1}, id));
        Floats tensor("x", {1, 1});
        tensor.operation.process_set = id;
        const auto handle = submit(rank.engine(), tensor.made());
        ASSERT_TRUE(rank.engine().close_process_set(id));
        const auto done = finish(rank.engine(), handle);
        EXPECT_TRUE(done) << done.error().text;
        EXPECT_EQ(tensor.recv, (std::vector<float>{2, 2}));
    });
}

TEST(EngineProcessSets, ThatOnlyTheirMembersKnowAreChecked) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        const std::vector<int> both = {0, 1};
        EXPECT_FALSE(rank.engine().open_process_set(both, 1));
        EXPECT_FALSE(rank.engine().open_process_set(both, MPIB_LAST_PRIVATE_SET + 1));
        EXPECT_FALSE(rank.engine().open_process_set(std::vector{1, 0}, 300));
        EXPECT_FALSE(rank.engine().open_process_set(std::vector{1 - rank.rank()}, 300));
        EXPECT_FALSE(rank.engine().close_process_set(300));
        ASSERT_TRUE(rank.engine().open_process_set(both, MPIB_LAST_PRIVATE_SET));
        EXPECT_FALSE(rank.engine().open_process_set(both, MPIB_LAST_PRIVATE_SET));
        EXPECT_FALSE(rank.engine().remove_process_set(MPIB_LAST_PRIVATE_SET));
        Floats device("device", {1});
        device.operation.process_set = MPIB_LAST_PRIVATE_SET;
        device.operation.flags = MPIB_DEVICE;
        const auto refused = rank.engine().submit(device.made());
        ASSERT_FALSE(refused);
        EXPECT_NE(refused.error().text.find("not support device memory yet"), std::string::npos);
    });
}

}  // namespace
