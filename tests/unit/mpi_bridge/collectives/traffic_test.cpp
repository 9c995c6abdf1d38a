// SPDX-License-Identifier: Apache-2.0
//
// What crosses the network: what docs/collectives.md says, and never more than without shared
// memory.
#include "placement_calls.hpp"

namespace {

using namespace mpi_bridge_test;

const Placement placements[] = {
    {0, 0, 1, 1},       {0, 0, 0, 1, 1, 2}, {0, 0, 1, 1, 1, 1, 1},          {0, 1, 0, 1, 0, 1, 0},
    {0, 1, 2, 0, 1, 2}, {0, 0, 0, 0, 1},    {0, 0, 1, 1, 2, 2, 3, 3, 4, 4},
};
constexpr std::size_t vector_counts[] = {64, 5000, 25000};  // of floats

std::vector<std::size_t> bytes_of_hosts(const Hosts& hosts,
                                        const std::vector<std::size_t>& bytes_of_members) {
    std::vector<std::size_t> bytes(static_cast<std::size_t>(hosts.host_count()));
    for (int member = 0; member < hosts.size(); ++member) {
        bytes[static_cast<std::size_t>(hosts.host_of(member))] +=
            bytes_of_members[static_cast<std::size_t>(member)];
    }
    return bytes;
}

std::size_t sum_of(const std::vector<std::size_t>& values) {
    return std::accumulate(values.begin(), values.end(), std::size_t{0});
}

TEST(Traffic, OfAnAllgatherIsEachPartOncePerOtherHost) {
    for (const auto& placement : placements) {
        Hosts hosts(placement);
        for (const std::size_t count : vector_counts) {
            const auto lengths = uneven_counts(hosts.size(), count * sizeof(float));
            const auto of_hosts = bytes_of_hosts(hosts, lengths);
            const Traffic& traffic = check_allgather(hosts, lengths, 0);
            for (int host = 0; host < hosts.host_count(); ++host) {
                EXPECT_EQ(traffic.bytes_to(host),
                          sum_of(of_hosts) - of_hosts[static_cast<std::size_t>(host)]);
            }
        }
    }
}

TEST(Traffic, OfAReduceScatterIsTheSumsOfOtherHostsParts) {
    for (const auto& placement : placements) {
        Hosts hosts(placement);
        for (const std::size_t count : vector_counts) {
            const auto parts = uneven_counts(hosts.size(), count / placement.size());
            const auto of_hosts = bytes_of_hosts(hosts, parts);
            const Traffic& traffic =
                check_reduce_scatter<float>(hosts, parts, MPIB_FLOAT32, MPIB_SUM);
            for (int host = 0; host < hosts.host_count(); ++host) {
                const std::size_t own = of_hosts[static_cast<std::size_t>(host)];
                EXPECT_EQ(traffic.bytes_from(host), (sum_of(of_hosts) - own) * sizeof(float));
            }
        }
    }
}

TEST(Traffic, OfABroadcastIsTheDataOncePerOtherHost) {
    for (const auto& placement : placements) {
        Hosts hosts(placement);
        for (const std::size_t count : vector_counts) {
            const Traffic& traffic = check_broadcast(hosts, count, hosts.size() - 1);
            for (int host = 0; host < hosts.host_count(); ++host) {
                const bool gets = host != hosts.host_of(hosts.size() - 1);
                EXPECT_EQ(traffic.bytes_to(host), gets ? count : 0);
            }
        }
    }
}

TEST(Traffic, OfAReduceIsTheSumsOfAHostOnceAndOfLongVectorsLessThanTwice) {
    for (const auto& placement : placements) {
        Hosts hosts(placement);
        for (const std::size_t count : vector_counts) {
            const int root = hosts.size() - 1;
            const Traffic& traffic =
                check_reduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM, root);
            const std::size_t once = count * sizeof(float);
            for (int host = 0; host < hosts.host_count(); ++host) {
                if (host == hosts.host_of(root)) continue;
                EXPECT_GE(traffic.bytes_from(host), once);
                EXPECT_LT(traffic.bytes_from(host), 2 * once);
            }
            if (count == vector_counts[0]) {
                EXPECT_EQ(traffic.bytes(), once * static_cast<std::size_t>(hosts.host_count() - 1));
            }
        }
    }
}

TEST(Traffic, OfALongAllreduceIsTwiceTheSumsButForTheOwnShare) {
    for (const auto& placement : {Placement{0, 0, 1, 1}, Placement{0, 1, 2, 0, 1, 2}}) {
        Hosts hosts(placement);
        constexpr std::size_t count = 100000;
        const Traffic& traffic = check_allreduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM);
        const auto others = static_cast<std::size_t>(hosts.host_count() - 1);
        EXPECT_EQ(traffic.bytes(), 2 * others * count * sizeof(float));
    }
}

TEST(Traffic, OfAnAlltoallIsItsMessagesAndShortOnesGoTogether) {
    for (const auto& placement : placements) {
        Hosts hosts(placement);
        const auto size = static_cast<std::size_t>(hosts.size());
        const auto links = static_cast<std::size_t>(hosts.host_count() * (hosts.host_count() - 1));
        std::size_t pairs = 0;  // of ranks on different hosts
        for (int from = 0; from < hosts.size(); ++from) {
            for (int to = 0; to < hosts.size(); ++to)
                pairs += hosts.host_of(from) == hosts.host_of(to) ? 0U : 1U;
        }
        for (const std::size_t count : {std::size_t{8}, std::size_t{4096}, std::size_t{100000}}) {
            const MessageLength length = [&](std::size_t from, std::size_t to) {
                return count + from * size + to;
            };
            std::vector<std::size_t> expected(links == 0 ? 0 : size * size);
            for (std::size_t from = 0; from < size; ++from) {
                for (std::size_t to = 0; to < size; ++to) {
                    const int link = hosts.host_of(static_cast<int>(from)) * hosts.host_count() +
                                     hosts.host_of(static_cast<int>(to));
                    expected[static_cast<std::size_t>(link)] += length(from, to);
                }
            }
            const Traffic& traffic = check_alltoall(hosts, length);
            for (int from = 0; from < hosts.host_count(); ++from) {
                for (int to = 0; to < hosts.host_count(); ++to) {
                    if (from == to) continue;
                    EXPECT_EQ(traffic.bytes(from, to),
                              expected[static_cast<std::size_t>(from * hosts.host_count() + to)]);
                }
            }
            if (count == 8) {
                EXPECT_EQ(traffic.messages(), links);
            }
            if (count == 100000) {
                EXPECT_GE(traffic.messages(), pairs);
            }
        }
    }
}

// Every collective, over shared memory and without. Short allreduces take the fewest steps,
// whatever that costs in bytes.
TEST(Traffic, IsNeverMoreThanWithoutSharedMemory) {
    for (const auto& placement : placements) {
        Hosts shared(placement);
        Hosts flat(placement, {.shared_memory = false});
        const int root = shared.size() - 1;
        using Check = std::function<const Traffic&(Hosts&)>;
        for (const std::size_t count : vector_counts) {
            const std::vector<std::size_t> parts(placement.size(), count / placement.size());
            const std::pair<const char*, Check> checks[] = {
                {"allreduce",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_allreduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM);
                 }},
                {"allreduce of 16-bit floats",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_allreduce<Brain>(hosts, count, MPIB_BFLOAT16, MPIB_SUM);
                 }},
                {"reduce",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_reduce<float>(hosts, count, MPIB_FLOAT32, MPIB_SUM, root);
                 }},
                {"reduce_scatter",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_reduce_scatter<float>(hosts, parts, MPIB_FLOAT32, MPIB_SUM);
                 }},
                {"allgather",
                 [&](Hosts& hosts) -> const Traffic& { return check_allgather(hosts, parts, 0); }},
                {"broadcast",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_broadcast(hosts, count, root);
                 }},
                {"alltoall",
                 [&](Hosts& hosts) -> const Traffic& {
                     return check_alltoall(hosts, [&](std::size_t, std::size_t) { return count; });
                 }},
            };
            for (const auto& [name, check] : checks) {
                if (std::string_view(name).starts_with("allreduce") && count < 10000) continue;
                const std::size_t bytes = check(shared).bytes();
                // The sums of a node are longer than 16-bit floats, of which the direct exchange
                // sends each as it is. So the first half of the way takes twice as much.
                const std::size_t halves =
                    std::string_view(name) == "allreduce of 16-bit floats" ? 3 : 2;
                EXPECT_LE(bytes, check(flat).bytes() * halves / 2) << name << " of " << count;
            }
        }
    }
}

TEST(Traffic, GoesTheFlatWayWhereEveryRankHasAHostOfItsOwn) {
    const Placement placement = {0, 1, 2, 3};
    Hosts apart(placement);
    Hosts flat(placement, {.shared_memory = false});
    EXPECT_EQ(apart.way(), Communicator::Way::network);
    const auto length = [](std::size_t, std::size_t) { return std::size_t{10}; };
    const std::size_t messages = check_alltoall(apart, length).messages();
    EXPECT_EQ(messages, check_alltoall(flat, length).messages());
    EXPECT_EQ(messages, 12U);
}

// Among so many hosts a step costs less than the messages that it saves.
const Hosts::Options many_steps{.segment_bytes = 65536,
                                .model = "alpha=20us,beta=1.2GB/s,gamma=8GB/s,further=1"};

Placement one_on_each(std::size_t hosts) {
    Placement apart(hosts);
    std::iota(apart.begin(), apart.end(), 0);
    return apart;
}

TEST(Traffic, OfAnAlltoallSendsShortMessagesThroughOtherRanks) {
    constexpr std::size_t hosts = 19;
    constexpr std::size_t steps = 5;
    Hosts ranks(one_on_each(hosts), many_steps);
    const MessageLength equal = [](std::size_t, std::size_t) { return std::size_t{40}; };
    EXPECT_EQ(check_alltoall(ranks, equal, {{.longest = 40, .equal = true}}).messages(),
              hosts * steps);
    // The ranks agree on the longest message in at most as many steps, and one more.
    const MessageLength uneven = [](std::size_t from, std::size_t to) {
        return (3 * from + to) % 50;
    };
    EXPECT_LE(check_alltoall(ranks, uneven).messages(), hosts * (2 * steps + 1));
    const MessageLength longer = [](std::size_t, std::size_t) { return std::size_t{20000}; };
    EXPECT_EQ(check_alltoall(ranks, longer, {{.longest = 20000, .equal = true}}).messages(),
              hosts * (hosts - 1));
}

// Padded messages, nearly all of which are empty, would cost more than they save.
TEST(Traffic, OfAnAlltoallSendsFewMessagesDirectly) {
    constexpr std::size_t hosts = 19;
    constexpr std::size_t steps = 5;
    Hosts ranks(one_on_each(hosts), many_steps);
    const MessageLength to_the_next = [](std::size_t from, std::size_t to) {
        return to == (from + 1) % hosts ? std::size_t{8} : std::size_t{0};
    };
    EXPECT_LE(check_alltoall(ranks, to_the_next).messages(), hosts * (steps + 2));
}

// Breaks when the ranks' messages have numbers under which they never meet.
TEST(Traffic, OfAnAlltoallInWhichRanksDisagreeAboutTheLengthEnds) {
    constexpr std::size_t hosts = 19;
    Hosts ranks(one_on_each(hosts), many_steps);
    const auto outcomes = ranks.outcomes([&](Communicator& all) {
        const std::size_t bytes = own(all) == 7 ? 20000 : 8;
        const std::vector<std::byte> sent(bytes);
        std::vector<std::vector<std::byte>> received(hosts, std::vector<std::byte>(bytes));
        const std::vector<ConstBytes> out(hosts, sent);
        const std::vector<Bytes> in(received.begin(), received.end());
        return all.alltoall(Hosts::call(bytes), out, in,
                            mpi_bridge::MessageLengths{.longest = bytes, .equal = true});
    });
    EXPECT_TRUE(std::any_of(outcomes.begin(), outcomes.end(), [](const Done& outcome) {
        return !outcome && outcome.error().status == MPIB_ERROR_MISMATCH;
    }));
    EXPECT_TRUE(std::none_of(outcomes.begin(), outcomes.end(),
                             [](const Done& outcome) { return outcome.has_value(); }));
}

TEST(Traffic, OfAnAlltoallSendsShortBlocksThroughOtherLeaders) {
    constexpr std::size_t hosts = 19;
    constexpr std::size_t steps = 5;
    Placement pairs(2 * hosts);
    for (std::size_t rank = 0; rank < pairs.size(); ++rank)
        pairs[rank] = static_cast<int>(rank % hosts);
    Hosts ranks(pairs, many_steps);
    const MessageLength uneven = [](std::size_t from, std::size_t to) {
        return (3 * from + to) % 5;
    };
    EXPECT_LE(check_alltoall(ranks, uneven).messages(), hosts * (2 * steps + 1));
    auto with_little_memory = many_steps;
    with_little_memory.share_bytes = hosts;
    Hosts others(pairs, with_little_memory);
    EXPECT_GE(check_alltoall(others, uneven).messages(), hosts * (hosts - 1));
}

}  // namespace
