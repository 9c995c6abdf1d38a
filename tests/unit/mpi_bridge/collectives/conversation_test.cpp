// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;

TEST(Barrier, HoldsEveryRankUntilTheLastHasCome) {
    for (const int size : rank_counts) {
        std::atomic<int> entered{0};
        run(size, [&](Conversation& talk) {
            if (talk.rank() == size - 1) {
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
            ++entered;
            auto done = mpi_bridge::barrier_dissemination(talk);
            EXPECT_EQ(entered, size);
            return done;
        });
    }
}

TEST(Conversation, NamesTheRankAndTheStepThatNeverCame) {
    Post post;
    const auto outcomes = as_ranks(
        3,
        [](Conversation& talk) {
            if (talk.rank() == 2) return Done{};
            return mpi_bridge::barrier_dissemination(talk);
        },
        post, short_segment, mpi_bridge::Seconds(0.05));
    ASSERT_FALSE(outcomes[0]);
    EXPECT_EQ(outcomes[0].error().status, MPIB_ERROR_TIMEOUT);
    EXPECT_NE(outcomes[0].error().text.find("receiving from rank 2"), std::string::npos)
        << outcomes[0].error().text;
    EXPECT_NE(outcomes[0].error().text.find("step 0"), std::string::npos);
}

}  // namespace
