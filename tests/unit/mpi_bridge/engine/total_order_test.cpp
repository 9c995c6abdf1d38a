// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/total_order.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using mpi_bridge::TotalOrder;

struct Job {
    int ranks = 0;
    std::vector<std::vector<int>> sets;  // the ranks of each process set
    int operations = 0;                  // of each process set
    // Whether an operation ends on a rank only once all members have come to it.
    bool blocks = false;
};

// Ranks that run the operations of their process sets, one at a time in each set. What happens next
// is drawn at random from all that may happen.
class Simulation {
  public:
    using Operation = std::pair<int, int>;  // process set, number

    Simulation(const Job& job, unsigned seed)
        : job_(job),
          random_(seed),
          orders_(static_cast<std::size_t>(job.ranks)),
          taken_(static_cast<std::size_t>(job.ranks)) {
        for (int set = 0; set < static_cast<int>(job.sets.size()); ++set)
            for (const int rank : job.sets[static_cast<std::size_t>(set)])
                members_.push_back({.rank = rank, .set = set});
    }

    // Returns false if the ranks wait for each other.
    bool run() {
        for (;;) {
            std::vector<Member*> able;
            for (Member& member : members_)
                if (can_go_on(member)) able.push_back(&member);
            if (able.empty()) break;
            go_on(*able[random_() % able.size()]);
        }
        return std::all_of(members_.begin(), members_.end(), [this](const Member& member) {
            return member.number == job_.operations;
        });
    }
    // The operations that the rank has taken, in its order.
    [[nodiscard]] const std::vector<Operation>& taken(int rank) const {
        return taken_[static_cast<std::size_t>(rank)];
    }

  private:
    enum class Stage { idle, proposed, agreed, taken };
    struct Member {
        int rank = 0;
        int set = 0;
        int number = 0;  // of the operation
        Stage stage = Stage::idle;
    };
    struct Exchange {
        std::size_t proposals = 0;
        std::size_t takers = 0;
        TotalOrder::Time latest = 0;
    };

    TotalOrder& order(const Member& member) {
        return orders_[static_cast<std::size_t>(member.rank)];
    }
    Exchange& exchange(const Member& member) { return exchanges_[{member.set, member.number}]; }
    std::size_t size(const Member& member) {
        return job_.sets[static_cast<std::size_t>(member.set)].size();
    }

    bool can_go_on(Member& member) {
        switch (member.stage) {
            case Stage::idle:
                return member.number < job_.operations;
            case Stage::proposed:
                return exchange(member).proposals == size(member);
            case Stage::agreed:
                return order(member).is_next(member.set);
            case Stage::taken:
                return !job_.blocks || exchange(member).takers == size(member);
        }
        return false;
    }

    void go_on(Member& member) {
        Exchange& with = exchange(member);
        switch (member.stage) {
            case Stage::idle:
                with.latest = std::max(with.latest, order(member).propose(member.set));
                ++with.proposals;
                member.stage = Stage::proposed;
                break;
            case Stage::proposed:
                order(member).agreed(member.set, with.latest);
                member.stage = Stage::agreed;
                break;
            case Stage::agreed:
                ++with.takers;
                taken_[static_cast<std::size_t>(member.rank)].emplace_back(member.set,
                                                                           member.number);
                member.stage = Stage::taken;
                break;
            case Stage::taken:
                order(member).finish(member.set);
                ++member.number;
                member.stage = Stage::idle;
                break;
        }
    }

    const Job& job_;
    std::mt19937 random_;
    std::vector<TotalOrder> orders_;
    std::vector<Member> members_;
    std::map<Operation, Exchange> exchanges_;
    std::vector<std::vector<Operation>> taken_;
};

// Whether one order of all operations agrees with the orders of all ranks.
bool have_one_order(const Simulation& simulation, int ranks) {
    using Operation = Simulation::Operation;
    std::map<Operation, std::set<Operation>> before;
    for (int rank = 0; rank < ranks; ++rank) {
        const auto& taken = simulation.taken(rank);
        for (std::size_t at = 0; at < taken.size(); ++at) {
            before[taken[at]];
            if (at > 0) before[taken[at]].insert(taken[at - 1]);
        }
    }
    while (!before.empty()) {
        const auto first = std::find_if(before.begin(), before.end(),
                                        [](const auto& each) { return each.second.empty(); });
        if (first == before.end()) return false;
        const Operation operation = first->first;
        before.erase(first);
        for (auto& [other, earlier] : before)
            earlier.erase(operation);
    }
    return true;
}

Job random_job(std::mt19937& random) {
    Job job{.ranks = 2 + static_cast<int>(random() % 5),
            .sets = {},
            .operations = 1 + static_cast<int>(random() % 6),
            .blocks = random() % 2 == 0};
    const auto sets = 1 + random() % 5;
    for (std::size_t set = 0; set < sets; ++set) {
        std::vector<int> ranks;
        for (int rank = 0; rank < job.ranks; ++rank)
            if (random() % 2 == 0) ranks.push_back(rank);
        if (!ranks.empty()) job.sets.push_back(ranks);
    }
    return job;
}

TEST(TotalOrder, IsTheSameOnAllRanksWhateverHappensFirst) {
    for (unsigned seed = 0; seed < 3000; ++seed) {
        std::mt19937 random(seed);
        const Job job = random_job(random);
        Simulation simulation(job, seed);
        ASSERT_TRUE(simulation.run()) << "stuck with seed " << seed;
        ASSERT_TRUE(have_one_order(simulation, job.ranks)) << "seed " << seed;
    }
}

// Three pairs that agree pairwise could still wait in a circle.
TEST(TotalOrder, HasNoCircleOfPairs) {
    const Job job{.ranks = 3, .sets = {{0, 1}, {1, 2}, {0, 2}}, .operations = 4, .blocks = true};
    for (unsigned seed = 0; seed < 2000; ++seed) {
        Simulation simulation(job, seed);
        ASSERT_TRUE(simulation.run()) << "stuck with seed " << seed;
        ASSERT_TRUE(have_one_order(simulation, job.ranks)) << "seed " << seed;
    }
}

TEST(TotalOrder, HoldsAnOperationBackForOneThatMayStillComeBeforeIt) {
    TotalOrder order;
    const auto first = order.propose(7);
    const auto second = order.propose(3);
    ASSERT_LT(first, second);
    order.agreed(3, second);
    EXPECT_FALSE(order.is_next(3));
    EXPECT_FALSE(order.is_next(7));
    order.agreed(7, second);
    // Equal times: the smaller id comes first.
    EXPECT_TRUE(order.is_next(3));
    EXPECT_FALSE(order.is_next(7));
    order.finish(3);
    EXPECT_TRUE(order.is_next(7));
    order.finish(7);
    EXPECT_GT(order.propose(1), second);
}

}  // namespace
