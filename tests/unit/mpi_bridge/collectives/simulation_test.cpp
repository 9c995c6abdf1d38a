// SPDX-License-Identifier: Apache-2.0
//
// The simulator, and in it the algorithms under the hardest rules that a transport may have: sends
// end when they are received, and memory lent to the transport changes at once.
#include "tests/bench/scale/simulation.hpp"

#include "ranks.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge_scale::Simulation;

const Algorithm<Allreduce>& allreduce(std::string_view name) {
    return *mpi_bridge::find_algorithm<Allreduce>(name);
}

Simulation::Options options(int ranks, std::size_t segment_bytes) {
    Simulation::Options options;
    options.ranks = ranks;
    options.hardware = {mpi_bridge::tcp_model(), mpi_bridge::shared_memory_model(), 1};
    options.segment_bytes = segment_bytes;
    return options;
}

mpi_bridge_scale::Report simulate(const Simulation::Options& how, const Body& body) {
    auto report = Simulation::run(how, body);
    EXPECT_TRUE(report) << report.error().text;
    return report.value_or(mpi_bridge_scale::Report());
}

mpi_bridge_scale::Report simulate_allreduce(const Simulation::Options& how,
                                            const Algorithm<Allreduce>& algorithm,
                                            std::size_t count, bool in_place) {
    const auto data = make_data<float>(how.ranks, count);
    auto results =
        in_place ? data : std::vector<std::vector<float>>(data.size(), poisoned<float>(count));
    const auto report = simulate(how, [&](Conversation& talk) {
        const std::byte* send = in_place ? in(results[own(talk)]) : in(data[own(talk)]);
        return algorithm.run(talk, Simulation::float_sum(), send, out(results[own(talk)]), count);
    });
    expect_reduced(results[0], 0, data, MPIB_SUM);
    for (const auto& result : results)
        EXPECT_TRUE(same_bits(result, results[0])) << algorithm.name;
    return report;
}

TEST(Simulation, CountsTheStepsAndBytesOfARing) {
    constexpr std::size_t count = 1024;
    const auto report =
        simulate_allreduce(options(4, 256UL * 1024), allreduce("ring"), count, false);
    EXPECT_EQ(report.steps, 2 * 3);
    EXPECT_EQ(report.bytes_per_rank, 2 * 3 * count * sizeof(float) / 4);
    EXPECT_EQ(report.messages, 4U * 2 * 3);
    EXPECT_EQ(report.connections_per_rank, 2);
}

TEST(Simulation, CountsTheStepsAndBytesOfHalvingAndDoubling) {
    constexpr std::size_t count = 10000;
    struct Expected {
        int ranks, steps, connections;
    };
    for (const auto& [ranks, steps, connections] : {Expected{4, 4, 3}, {5, 6, 4}, {16, 8, 7}}) {
        const auto report = simulate_allreduce(options(ranks, 256UL * 1024),
                                               allreduce("halving_doubling"), count, false);
        EXPECT_EQ(report.steps, steps);
        EXPECT_EQ(report.connections_per_rank, connections);
        const double share = (ranks - 1.0) / ranks;
        EXPECT_NEAR(static_cast<double>(report.bytes_per_rank), 2 * share * count * sizeof(float),
                    2.0 * ranks * sizeof(float));
    }
}

TEST(Simulation, TakesTheTimeThatTheModelSays) {
    auto how = options(2, 256UL * 1024);
    const auto& model = how.hardware.between;
    std::vector<std::byte> memory(1000);
    const auto report = simulate(how, [&](Conversation& talk) -> Done {
        auto pending = talk.rank() == 0 ? talk.send(1, 0, memory) : talk.receive(0, 0, memory);
        return talk.wait(*pending);
    });
    EXPECT_DOUBLE_EQ(report.seconds, model.alpha + 1000 * model.beta);
    EXPECT_EQ(report.steps, 1);
}

TEST(Simulation, LetsRanksOfANodeShareItsInterface) {
    // Ranks 0 and 1 each send to the other node.
    const auto pair_time = [](int ranks_per_node) {
        auto how = options(4, 256UL * 1024);
        how.hardware.ranks_per_node = ranks_per_node;
        std::vector<std::vector<std::byte>> memory(4, std::vector<std::byte>(1000000));
        return simulate(how,
                        [&](Conversation& talk) -> Done {
                            const int peer = (talk.rank() + 2) % 4;
                            auto pending = talk.rank() < 2
                                               ? talk.send(peer, 0, memory[own(talk)])
                                               : talk.receive(peer, 0, memory[own(talk)]);
                            return talk.wait(*pending);
                        })
            .seconds;
    };
    const double transfer = 1000000 * mpi_bridge::tcp_model().beta;
    EXPECT_NEAR(pair_time(2) - pair_time(1), transfer, 1e-9);
}

TEST(Simulation, GivesTheSameReportEveryTime) {
    const auto first = simulate_allreduce(options(7, 64), allreduce("ring"), 1031, true);
    const auto second = simulate_allreduce(options(7, 64), allreduce("ring"), 1031, true);
    EXPECT_EQ(first.seconds, second.seconds);
    EXPECT_EQ(first.steps, second.steps);
    EXPECT_EQ(first.messages, second.messages);
}

TEST(Simulation, TakesTheSameTimeWhetherItCarriesPayloadOrNot) {
    for (const auto& algorithm : algorithms<Allreduce>()) {
        auto how = options(7, 256);
        const auto carried = simulate_allreduce(how, algorithm, 5000, true);
        how.carries_payload = false;
        std::vector<float> vector(5000);
        const auto counted = simulate(how, [&](Conversation& talk) {
            return algorithm.run(talk, Simulation::float_sum(), in(vector), out(vector),
                                 vector.size());
        });
        EXPECT_EQ(carried.seconds, counted.seconds) << algorithm.name;
        EXPECT_EQ(carried.messages, counted.messages);
        EXPECT_EQ(carried.bytes_per_rank, counted.bytes_per_rank);
    }
}

TEST(Simulation, SaysWhoWaitsForWhomForEver) {
    const auto report = Simulation::run(options(3, 64), [](Conversation& talk) {
        if (talk.rank() == 2) return Done{};
        return mpi_bridge::barrier_dissemination(talk);
    });
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().status, MPIB_ERROR_TIMEOUT);
    EXPECT_NE(report.error().text.find("rank 2"), std::string::npos) << report.error().text;
}

TEST(Simulation, FindsMemoryThatChangesWhileItIsLent) {
    std::vector<std::byte> sent(100, std::byte{1});
    std::vector<std::byte> received(100);
    simulate(options(2, 64), [&](Conversation& talk) -> Done {
        auto pending = talk.rank() == 0 ? talk.send(1, 0, sent) : talk.receive(0, 0, received);
        if (talk.rank() == 0) sent[5] = std::byte{2};
        return talk.wait(*pending);
    });
    EXPECT_EQ(received[5], std::byte{2});
}

class SimulatedTest : public testing::TestWithParam<int> {};

TEST_P(SimulatedTest, AllreduceTouchesNoMemoryItHasLent) {
    for (const auto& algorithm : algorithms<Allreduce>()) {
        for (const std::size_t count : counts) {
            for (const bool in_place : {false, true}) {
                simulate_allreduce(options(GetParam(), short_segment), algorithm, count, in_place);
            }
        }
    }
}

TEST_P(SimulatedTest, ReduceTouchesNoMemoryItHasLent) {
    const int root = GetParam() / 2;
    for (const auto& algorithm : algorithms<Reduce>()) {
        for (const std::size_t count : counts) {
            const auto data = make_data<float>(GetParam(), count);
            auto result = poisoned<float>(count);
            simulate(options(GetParam(), short_segment), [&](Conversation& talk) {
                std::byte* recv = talk.rank() == root ? out(result) : nullptr;
                return algorithm.run(talk, Simulation::float_sum(), in(data[own(talk)]), recv,
                                     count, root);
            });
            expect_reduced(result, 0, data, MPIB_SUM);
        }
    }
}

TEST_P(SimulatedTest, ReduceScatterTouchesNoMemoryItHasLent) {
    for (const auto& algorithm : algorithms<ReduceScatter>()) {
        for (const std::size_t part : {std::size_t{0}, std::size_t{1}, std::size_t{333}}) {
            const auto ranks = static_cast<std::size_t>(GetParam());
            const std::vector<std::size_t> parts(ranks, part);
            const auto data = make_data<float>(GetParam(), part * ranks);
            std::vector<std::vector<float>> results(ranks, poisoned<float>(part));
            simulate(options(GetParam(), short_segment), [&](Conversation& talk) {
                return algorithm.run(talk, Simulation::float_sum(), in(data[own(talk)]),
                                     out(results[own(talk)]), parts);
            });
            for (std::size_t rank = 0; rank < ranks; ++rank)
                expect_reduced(results[rank], rank * part, data, MPIB_SUM);
        }
    }
}

TEST_P(SimulatedTest, BroadcastTouchesNoMemoryItHasLent) {
    const auto ranks = static_cast<std::size_t>(GetParam());
    for (const auto& algorithm : algorithms<Broadcast>()) {
        for (const std::size_t count : counts) {
            const auto expected = random_values<std::uint8_t>(count, count);
            std::vector<std::vector<std::uint8_t>> buffers(ranks, poisoned<std::uint8_t>(count));
            buffers[ranks - 1] = expected;
            simulate(options(GetParam(), short_segment), [&](Conversation& talk) {
                return algorithm.run(talk, Bytes(out(buffers[own(talk)]), count), talk.size() - 1);
            });
            for (const auto& buffer : buffers)
                EXPECT_EQ(buffer, expected);
        }
    }
}

TEST_P(SimulatedTest, AllgatherTouchesNoMemoryItHasLent) {
    const auto ranks = static_cast<std::size_t>(GetParam());
    for (const auto& algorithm : algorithms<Allgather>()) {
        for (const std::size_t count : counts) {
            const auto whole = random_values<std::uint8_t>(count * ranks, count);
            std::vector<std::vector<std::uint8_t>> buffers(ranks,
                                                           poisoned<std::uint8_t>(whole.size()));
            simulate(options(GetParam(), short_segment), [&](Conversation& talk) {
                std::vector<Bytes> parts;
                for (std::size_t r = 0; r < ranks; ++r)
                    parts.push_back(
                        Bytes(out(buffers[own(talk)]), whole.size()).subspan(r * count, count));
                if (count != 0) {
                    std::memcpy(parts[own(talk)].data(), in(whole) + own(talk) * count, count);
                }
                return algorithm.run(talk, parts);
            });
            for (const auto& buffer : buffers)
                EXPECT_EQ(buffer, whole);
        }
    }
}

TEST_P(SimulatedTest, AlltoallTouchesNoMemoryItHasLent) {
    const auto ranks = static_cast<std::size_t>(GetParam());
    for (const auto& algorithm : algorithms<mpi_bridge::Alltoall>()) {
        for (const std::size_t bytes : counts) {
            const auto message = [&](std::size_t from, std::size_t to) {
                return random_values<std::uint8_t>(bytes, from * ranks + to);
            };
            std::vector<std::vector<std::vector<std::uint8_t>>> sent(ranks), received(ranks);
            for (std::size_t rank = 0; rank < ranks; ++rank) {
                for (std::size_t to = 0; to < ranks; ++to)
                    sent[rank].push_back(message(rank, to));
                received[rank].resize(ranks, poisoned<std::uint8_t>(bytes));
            }
            simulate(options(GetParam(), short_segment), [&](Conversation& talk) {
                std::vector<ConstBytes> outgoing;
                std::vector<Bytes> incoming;
                for (const auto& part : sent[own(talk)])
                    outgoing.emplace_back(in(part), bytes);
                for (auto& part : received[own(talk)])
                    incoming.emplace_back(out(part), bytes);
                return algorithm.run(talk, outgoing, incoming, {.longest = bytes});
            });
            for (std::size_t to = 0; to < ranks; ++to) {
                for (std::size_t from = 0; from < ranks; ++from)
                    EXPECT_EQ(received[to][from], message(from, to)) << algorithm.name;
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Ranks, SimulatedTest, testing::Values(2, 3, 5, 8, 13, 16));

}  // namespace
