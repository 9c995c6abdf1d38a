// SPDX-License-Identifier: Apache-2.0
//
// All collectives of a communicator, over ranks on one host and several, however they are placed.
#include "placement_calls.hpp"

namespace {

using namespace mpi_bridge_test;

struct Named {
    const char* name;
    Placement hosts;
};

const Named placements[] = {
    {"OneHost", {0, 0, 0, 0}},
    {"TwoHosts", {0, 0, 1, 1}},
    {"ThreeUnequalHosts", {0, 0, 0, 1, 1, 2}},
    {"TwoHostsOfTwoAndFive", {0, 0, 1, 1, 1, 1, 1}},
    {"RoundRobin", {0, 1, 0, 1, 0, 1}},
    {"UnequalRoundRobin", {0, 1, 2, 0, 1, 0, 1, 0}},
    {"OneRankPerHost", {0, 1, 2}},
};

// Of floats: around one of the segments of 4 KiB, and where all ranks of a node use the network.
constexpr std::size_t element_counts[] = {0, 1, 7, 1023, 1024, 1025, 20000};

class PlacementTest : public testing::TestWithParam<Named> {
  protected:
    [[nodiscard]] std::vector<int> roots() const {
        const auto size = static_cast<int>(GetParam().hosts.size());
        return {0, size / 2, size - 1};
    }
};

TEST_P(PlacementTest, ReducesVectorsOfEveryLength) {
    Hosts hosts(GetParam().hosts);
    for (const std::size_t count : element_counts) {
        for (const bool in_place : {false, true}) {
            check_allreduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM, in_place);
            for (const int root : roots())
                check_reduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM, root, in_place);
        }
    }
}

TEST_P(PlacementTest, ScattersResultsOfEveryLength) {
    Hosts hosts(GetParam().hosts);
    for (const std::size_t count : element_counts) {
        const std::vector<std::size_t> even(static_cast<std::size_t>(hosts.size()), count);
        check_reduce_scatter<float>(hosts, even, MPIB_FLOAT32, MPIB_SUM);
        check_reduce_scatter<float>(hosts, uneven_counts(hosts.size(), count), MPIB_FLOAT32,
                                    MPIB_SUM);
    }
}

TEST_P(PlacementTest, ReducesEveryDatatypeByEveryOperation) {
    Hosts hosts(GetParam().hosts);
    constexpr std::size_t count = 131;
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            with_type(datatype, [&](auto type) {
                using T = decltype(type);
                check_allreduce<T>(hosts, count, datatype, op);
                check_reduce<T>(hosts, count, datatype, op, hosts.size() - 1);
                check_reduce_scatter<T>(hosts, uneven_counts(hosts.size(), count), datatype, op);
            });
        }
    }
}

TEST_P(PlacementTest, GathersPartsWhereverTheyBelong) {
    Hosts hosts(GetParam().hosts);
    for (const std::size_t count : element_counts) {
        const std::vector<std::size_t> even(static_cast<std::size_t>(hosts.size()), count);
        for (const std::size_t gap : {std::size_t{0}, std::size_t{5}}) {
            check_allgather(hosts, even, gap);
            check_allgather(hosts, uneven_counts(hosts.size(), count), gap);
        }
    }
}

TEST_P(PlacementTest, BroadcastsFromAnyRoot) {
    Hosts hosts(GetParam().hosts);
    for (const std::size_t count : {0UL, 1UL, 100UL, 4095UL, 4096UL, 4097UL, 65535UL, 200000UL}) {
        for (const int root : roots())
            check_broadcast(hosts, count, root);
    }
}

TEST_P(PlacementTest, DeliversMessagesOfAllLengths) {
    Hosts hosts(GetParam().hosts);
    for (const std::size_t count : {0UL, 1UL, 100UL, 4095UL, 4096UL, 4097UL, 70000UL})
        check_alltoall(hosts, [&](std::size_t, std::size_t) { return count; });
    // Short and long ones, in different ways in both directions.
    check_alltoall(hosts, [](std::size_t from, std::size_t to) {
        constexpr std::size_t lengths[] = {0, 3, 5000, 20000, 100000};
        return lengths[(from + 2 * to) % 5];
    });
}

TEST_P(PlacementTest, WorksOffLongVectorsInRounds) {
    Hosts hosts(GetParam().hosts, {.share_bytes = 8192});
    // Averages of bytes are summed up in wider numbers.
    constexpr std::size_t count = 70001;
    check_allreduce<std::int8_t>(hosts, count, MPIB_INT8, MPIB_AVERAGE);
    for (const int root : roots())
        check_reduce<std::int8_t>(hosts, count, MPIB_INT8, MPIB_AVERAGE, root);
    check_reduce<std::int8_t>(hosts, 20000, MPIB_INT8, MPIB_AVERAGE, hosts.size() - 1);
    check_reduce_scatter<std::int8_t>(hosts, uneven_counts(hosts.size(), count / 4), MPIB_INT8,
                                      MPIB_AVERAGE);
    check_allgather(hosts, uneven_counts(hosts.size(), 5000), 1);
    // Several short messages each, to one host at a time.
    check_alltoall(hosts, [](std::size_t from, std::size_t to) { return 1000 + 300 * from + to; });
}

INSTANTIATE_TEST_SUITE_P(Hosts, PlacementTest, testing::ValuesIn(placements),
                         [](const auto& placed) { return std::string(placed.param.name); });

// Calls on which one rank disagrees with the others. Every collective sends something to everybody
// or gets something from everybody, so that all ranks find out.
using Call = Done (*)(Communicator&, std::uint64_t agreement);

constexpr std::size_t floats = 100;

template <typename Body>
Done with_vectors(Communicator& all, Body body) {
    const auto size = static_cast<std::size_t>(all.group().size());
    std::vector<float> send(floats * size, 1.0F);
    std::vector<float> recv(floats * size);
    return body(send, recv);
}

const Call calls[] = {
    [](Communicator& all, std::uint64_t agreement) {
        return with_vectors(all, [&](auto& send, auto& recv) {
            return all.allreduce(Hosts::call(agreement),
                                 *mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM), in(send),
                                 out(recv), floats);
        });
    },
    [](Communicator& all, std::uint64_t agreement) {
        return with_vectors(all, [&](auto& send, auto& recv) {
            const std::vector<std::size_t> parts(static_cast<std::size_t>(all.group().size()),
                                                 floats);
            return all.reduce_scatter(Hosts::call(agreement),
                                      *mpi_bridge::find_reduction(MPIB_FLOAT32, MPIB_SUM), in(send),
                                      out(recv), parts);
        });
    },
    [](Communicator& all, std::uint64_t agreement) {
        return with_vectors(all, [&](auto& /*send*/, auto& recv) {
            std::vector<Bytes> parts;
            for (int member = 0; member < all.group().size(); ++member) {
                parts.emplace_back(out(recv) + static_cast<std::size_t>(member) * floats, floats);
            }
            return all.allgather(Hosts::call(agreement), parts);
        });
    },
    [](Communicator& all, std::uint64_t agreement) {
        return with_vectors(all, [&](auto& send, auto& recv) {
            std::vector<ConstBytes> outgoing;
            std::vector<Bytes> incoming;
            for (int member = 0; member < all.group().size(); ++member) {
                const auto at = static_cast<std::size_t>(member) * floats;
                outgoing.emplace_back(in(send) + at, floats);
                incoming.emplace_back(out(recv) + at, floats);
            }
            return all.alltoall(Hosts::call(agreement), outgoing, incoming, std::nullopt);
        });
    },
};

bool any_mismatch(const std::vector<Done>& outcomes) {
    return std::any_of(outcomes.begin(), outcomes.end(), [](const Done& outcome) {
        return !outcome && outcome.error().status == MPIB_ERROR_MISMATCH;
    });
}

TEST_P(PlacementTest, EveryRankFailsWhereOneMakesAnotherCall) {
    for (const Call call : calls) {
        Hosts hosts(GetParam().hosts);
        const int other = hosts.size() - 1;
        const auto outcomes = hosts.outcomes(
            [&](Communicator& all) { return call(all, all.group().own == other ? 1 : 2); });
        EXPECT_TRUE(any_mismatch(outcomes));
        for (const Done& outcome : outcomes)
            EXPECT_FALSE(outcome);
    }
}

TEST_P(PlacementTest, FindsRanksThatDisagreeAboutOneMessage) {
    // From the last rank to the first: short on both sides, or on one of them only.
    for (const auto& [sent, expected] : {std::pair(4UL, 5UL), std::pair(4UL, 90000UL),
                                         std::pair(90000UL, 4UL), std::pair(90000UL, 90001UL)}) {
        Hosts hosts(GetParam().hosts);
        const int last = hosts.size() - 1;
        const auto outcomes =
            hosts.outcomes([&, sent = sent, expected = expected](Communicator& all) {
                std::vector<std::byte> send(90001);
                std::vector<std::byte> recv(90001);
                std::vector<ConstBytes> outgoing(static_cast<std::size_t>(hosts.size()));
                std::vector<Bytes> incoming(outgoing.size());
                if (all.group().own == last) outgoing[0] = ConstBytes(send).first(sent);
                if (all.group().own == 0) incoming.back() = Bytes(recv).first(expected);
                return all.alltoall(Hosts::call(), outgoing, incoming, std::nullopt);
            });
        EXPECT_TRUE(any_mismatch(outcomes)) << sent << " bytes sent, " << expected << " expected";
        EXPECT_FALSE(outcomes[0]);
    }
}

}  // namespace
