// SPDX-License-Identifier: Apache-2.0
#include <random>

#include "tests/unit/mpi_bridge/engine/ranks.hpp"

namespace {

using namespace mpi_bridge_test;

void expect_done(const mpi_bridge::Done& done) {
    ASSERT_TRUE(done) << done.error().text;
}

// Submits all, waits for all, and checks the sums.
void run_step(Ranks::Rank& rank, const std::vector<std::string>& names, std::size_t length) {
    std::vector<std::unique_ptr<Floats>> tensors;
    std::vector<mpib_handle> handles;
    for (const std::string& name : names) {
        tensors.push_back(std::make_unique<Floats>(name, std::vector<float>(length, 2)));
        handles.push_back(submit(rank.engine(), tensors.back()->made()));
    }
    for (const mpib_handle handle : handles)
        expect_done(finish(rank.engine(), handle));
    for (const auto& tensor : tensors)
        ASSERT_EQ(tensor->recv, std::vector<float>(length, static_cast<float>(2 * rank.size())));
}

// Whether they fit into one bucket, and whether it is small, must make no difference.
class LeavingThePlan : public testing::TestWithParam<std::size_t> {};

TEST_P(LeavingThePlan, HelpsARankThatWaitsOutOfOrder) {
    constexpr int size = 3;
    const std::size_t length = GetParam();
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"a", "b"}, length);
        // Rank 0 gets both ready; rank 1 does not submit "a" before "b" is done.
        Floats a("a", std::vector<float>(length, 1));
        Floats b("b", std::vector<float>(length, 3));
        if (rank.rank() == 1) {
            expect_done(rank.engine().call(b.made()));
            expect_done(rank.engine().call(a.made()));
        } else {
            const auto handle_a = submit(rank.engine(), a.made());
            const auto handle_b = submit(rank.engine(), b.made());
            expect_done(finish(rank.engine(), handle_b));
            expect_done(finish(rank.engine(), handle_a));
        }
        ASSERT_EQ(a.recv, std::vector<float>(length, size));
        ASSERT_EQ(b.recv, std::vector<float>(length, 3 * size));
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"a", "b"}, length);
    });
    for (int rank = 0; rank < size; ++rank) {
        const auto counters = ranks.at(rank).counters();
        EXPECT_EQ(counters.plans_broken, 1U);
        EXPECT_EQ(counters.plans_made, 2U);
    }
}

TEST_P(LeavingThePlan, KeepsTheDataOfARankThatHadBegun) {
    constexpr int size = 2;
    const std::size_t length = GetParam();
    Ranks ranks(size);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"a", "b"}, length);
        // In place: what rank 0 contributes must survive the item that is not executed.
        std::vector<float> memory(2 * length, static_cast<float>(1 + rank.rank()));
        Floats a("a", std::vector<float>(length));
        Floats b("b", std::vector<float>(length));
        (void)a.made();
        (void)b.made();
        a.operation.send = a.operation.recv = memory.data();
        b.operation.send = b.operation.recv = memory.data() + length;
        if (rank.rank() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            expect_done(rank.engine().call(b.operation));
            expect_done(rank.engine().call(a.operation));
        } else {
            const auto handle_a = submit(rank.engine(), a.operation);
            expect_done(rank.engine().call(b.operation));
            expect_done(finish(rank.engine(), handle_a));
        }
        ASSERT_EQ(memory, std::vector<float>(2 * length, 3));
    });
}

TEST_P(LeavingThePlan, IsNotNeededForNamesBesideIt) {
    const std::size_t length = GetParam();
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"a", "b"}, length);
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"new/" + std::to_string(step), "a", "b"}, length);
    });
    EXPECT_EQ(ranks.at(0).counters().plans_broken, 0U);
    EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
}

TEST_P(LeavingThePlan, IsNoticedByPollingToo) {
    const std::size_t length = GetParam();
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 6; ++step)
            run_step(rank, {"a", "b"}, length);
        Floats b("b", std::vector<float>(length, 1));
        const auto handle = submit(rank.engine(), b.made());
        while (rank.engine().poll(handle) == false)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        expect_done(finish(rank.engine(), handle));
        ASSERT_EQ(b.recv, std::vector<float>(length, 2));
    });
}

INSTANTIATE_TEST_SUITE_P(Engine, LeavingThePlan, testing::Values(4, 20000));

// Breaks when the plan of a phase that is over stays for long, so that the next phase has none.
TEST(EnginePlan, IsGivenUpSoonWhenTheProgramHasComeToAnotherPhase) {
    Ranks ranks(3);
    ranks.run([&](Ranks::Rank& rank) {
        for (const char* phase : {"load ", "train ", "evaluate "}) {
            for (int step = 0; step < 7; ++step)
                run_step(rank, {phase + std::string("a"), phase + std::string("b")}, 4);
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_made, 3U);
}

// Breaks when a short phase makes the plan of the long one anew each time.
TEST(EnginePlan, StaysWhenAShortPhaseReturns) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int epoch = 0; epoch < 20; ++epoch) {
            for (int step = 0; step < 8; ++step)
                run_step(rank, {"a", "b"}, 4);
            for (int step = 0; step < 4; ++step)
                run_step(rank, {"metric"}, 4);
        }
    });
    // 20 times 4 steps outside of it are decided on after 4, 8, 16 and 32 of them, and when nobody
    // uses the plan, after 1, 2 and 4.
    EXPECT_LE(ranks.at(0).counters().plans_made, 1U + 4U + 3U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 120U);
}

TEST(EnginePlan, LeavesOutWhatDoesNotComeInEveryStep) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 120; ++step) {
            if (step % 3 == 0) {
                run_step(rank, {"a", "metric", "b"}, 4);
            } else {
                run_step(rank, {"a", "b"}, 4);
            }
        }
    });
    EXPECT_LE(ranks.at(0).counters().plans_broken, 8U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 100U);
}

// As in a script that averages its loss in every step, without a name.
TEST(EnginePlan, IsMadeOfStepsThatAlsoHoldUnnamedOperations) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 30; ++step) {
            run_step(rank, {"a", "b"}, 4);
            Floats loss("", {1});
            mpib_operation unnamed = loss.made();
            unnamed.name = nullptr;
            expect_done(rank.engine().call(unnamed));
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_made, 1U);
    EXPECT_EQ(ranks.at(0).counters().plans_broken, 0U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 20U);
}

TEST(EnginePlan, TensorsThatDependOnEachOtherDoNotShareABucket) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 20; ++step) {
            Floats first("first", {1});
            Floats second("second", {2});
            if (rank.rank() == 0) {
                expect_done(rank.engine().call(first.made()));
                expect_done(rank.engine().call(second.made()));
            } else {
                const auto one = submit(rank.engine(), first.made());
                const auto two = submit(rank.engine(), second.made());
                expect_done(finish(rank.engine(), one));
                expect_done(finish(rank.engine(), two));
            }
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_broken, 0U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 30U);
}

// A program's next phase has other names: they get a plan too, and the old ones find one again.
TEST(EnginePlan, GrowsByWhatRepeatsBesideIt) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int phase = 0; phase < 3; ++phase) {
            for (int step = 0; step < 40; ++step)
                run_step(rank, {"a" + std::to_string(phase), "b" + std::to_string(phase)}, 4);
        }
    });
    EXPECT_EQ(ranks.at(0).counters().plans_made, 3U);
    EXPECT_EQ(ranks.at(0).counters().plans_broken, 2U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 60U);
}

TEST(EnginePlan, IsNotLeftForeverForWhatHasAnotherRhythm) {
    Ranks ranks(2);
    ranks.run([&](Ranks::Rank& rank) {
        for (int step = 0; step < 400; ++step) {
            run_step(rank, {"a", "b"}, 4);
            if (step % 5 == 4) run_step(rank, {"metric"}, 1);
        }
    });
    EXPECT_LE(ranks.at(0).counters().plans_made, 12U);
    EXPECT_GE(ranks.at(0).counters().planned_buckets, 250U);
}

// Everything at once: orders that change from step to step and from rank to rank, waits for single
// tensors in between, names that come and go.
TEST(EnginePlan, SurvivesDisorder) {
    constexpr int size = 3;
    constexpr int steps = 150;
    mpi_bridge_test::Wishes wishes;
    wishes.settings.bucket_bytes = 4096;
    wishes.settings.first_bucket_bytes = 64;
    Ranks ranks(size, wishes);
    ranks.run([&](Ranks::Rank& rank) {
        std::mt19937 common(7);  // the same on all ranks
        std::mt19937 own(static_cast<unsigned>(rank.rank()));
        for (int step = 0; step < steps; ++step) {
            const int count = 6 + static_cast<int>(common() % 3);
            const bool late_wait = common() % 4 == 0;
            const std::size_t waited = common() % 6;
            std::vector<std::size_t> order(static_cast<std::size_t>(count));
            std::iota(order.begin(), order.end(), 0U);
            if (step % 10 >= 7) std::shuffle(order.begin(), order.end(), own);
            std::vector<std::unique_ptr<Floats>> tensors(order.size());
            std::vector<mpib_handle> handles(order.size());
            for (const std::size_t at : order) {
                tensors[at] = std::make_unique<Floats>(
                    "t" + std::to_string(at),
                    std::vector<float>(at * 300 + 1, static_cast<float>(rank.rank() + step)));
                handles[at] = submit(rank.engine(), tensors[at]->made());
                // All ranks submit the waited-for tensor at the latest when all wait.
                if (late_wait && at == waited && rank.rank() != 0)
                    expect_done(rank.engine().wait(handles[at], 0));
            }
            std::shuffle(handles.begin(), handles.end(), own);
            for (const mpib_handle handle : handles)
                expect_done(finish(rank.engine(), handle));
            for (const auto& tensor : tensors) {
                for (const float value : tensor->recv)
                    ASSERT_EQ(value, static_cast<float>(size * step + 3));
            }
        }
    });
    EXPECT_GE(ranks.at(0).counters().plans_broken, 1U);
}

}  // namespace
