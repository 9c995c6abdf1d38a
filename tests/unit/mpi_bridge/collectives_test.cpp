// SPDX-License-Identifier: Apache-2.0
#include "collectives/collectives.hpp"

#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "in_process_transport.hpp"
#include "reference.hpp"

namespace {

using namespace mpi_bridge_test;
using mpi_bridge::Bytes;
using mpi_bridge::ConstBytes;
using mpi_bridge::Conversation;
using mpi_bridge::Done;

constexpr int sizes[] = {1, 2, 3, 4, 5, 7, 8};
// Segments of 64 bytes: around one segment, one round, and several of them.
constexpr std::size_t segment_bytes = 64;
constexpr std::size_t counts[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 257, 1031};

// Runs `body` as every rank, a thread each, and returns what each got.
using Body = std::function<Done(Conversation&)>;
std::vector<Done> as_ranks(int size, const Body& body, Post& post,
                           mpi_bridge::Seconds patience = mpi_bridge::Seconds(30)) {
    std::vector<Done> outcomes(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            InProcessTransport transport(post, rank, size);
            mpi_bridge::Scratch scratch;
            Conversation talk(transport, scratch, {"test", 1, 5, patience, {segment_bytes}});
            outcomes[static_cast<std::size_t>(rank)] = body(talk);
        });
    }
    for (auto& thread : threads)
        thread.join();
    return outcomes;
}

void run(int size, const Body& body) {
    Post post;
    for (const auto& outcome : as_ranks(size, body, post)) {
        ASSERT_TRUE(outcome) << outcome.error().text;
    }
    EXPECT_EQ(post.left_over(), 0U);
}

template <typename T>
const std::byte* in(const std::vector<T>& values) {
    return reinterpret_cast<const std::byte*>(values.data());
}
template <typename T>
std::byte* out(std::vector<T>& values) {
    return reinterpret_cast<std::byte*>(values.data());
}

template <typename T>
std::vector<T> poisoned(std::size_t count) {
    std::vector<T> values(count);
    if (count != 0) std::memset(static_cast<void*>(values.data()), 0xA5, count * sizeof(T));
    return values;
}

template <typename T>
std::vector<std::vector<T>> make_data(int size, std::size_t count) {
    std::vector<std::vector<T>> data;
    for (int rank = 0; rank < size; ++rank) {
        data.push_back(random_values<T>(count, count * 100 + static_cast<std::uint64_t>(rank)));
    }
    return data;
}

template <typename T>
void expect_reduced(const std::vector<T>& results, std::size_t offset,
                    const std::vector<std::vector<T>>& data, mpib_op op) {
    for (std::size_t i = 0; i < results.size(); ++i) {
        std::vector<T> inputs;
        for (const auto& values : data)
            inputs.push_back(values[offset + i]);
        ASSERT_TRUE(is_right(results[i], inputs, op))
            << "element " << i << " of " << results.size() << ", operation " << op << ", "
            << data.size() << " ranks";
    }
}

using Allreduce = Done (*)(Conversation&, const mpi_bridge::Reduction&, const std::byte*,
                           std::byte*, std::size_t);

template <typename T>
void check_allreduce(Allreduce algorithm, int size, std::size_t count, mpib_datatype datatype,
                     mpib_op op, bool in_place) {
    const auto data = make_data<T>(size, count);
    std::vector<std::vector<T>> results(data.size(), poisoned<T>(count));
    if (in_place) results = data;
    const auto* reduction = mpi_bridge::find_reduction(datatype, op);
    run(size, [&](Conversation& talk) {
        const auto rank = static_cast<std::size_t>(talk.rank());
        const std::byte* send = in_place ? in(results[rank]) : in(data[rank]);
        return algorithm(talk, *reduction, send, out(results[rank]), count);
    });
    for (const auto& result : results) {
        expect_reduced(result, 0, data, op);
        EXPECT_TRUE(count == 0 ||
                    std::memcmp(result.data(), results[0].data(), count * sizeof(T)) == 0)
            << "ranks differ in bits";
    }
}

class AllreduceTest : public testing::TestWithParam<Allreduce> {};

TEST_P(AllreduceTest, IsRightForEveryRankCountAndLength) {
    for (const int size : sizes) {
        for (const std::size_t count : counts) {
            for (const bool in_place : {false, true}) {
                check_allreduce<float>(GetParam(), size, count, MPIB_FLOAT32, MPIB_SUM, in_place);
            }
        }
    }
}

TEST_P(AllreduceTest, IsRightForEveryDatatypeAndOperation) {
    for (const auto datatype : all_datatypes) {
        for (const auto op : all_ops) {
            with_type(datatype, [&](auto type) {
                check_allreduce<decltype(type)>(GetParam(), 5, 131, datatype, op, false);
            });
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Algorithms, AllreduceTest,
                         testing::Values(mpi_bridge::allreduce_recursive_doubling,
                                         mpi_bridge::allreduce_ring));

TEST(ReduceScatter, GivesEveryRankItsUnevenPart) {
    for (const int size : sizes) {
        for (const std::size_t count : counts) {
            const auto data = make_data<double>(size, count);
            std::vector<std::size_t> parts;
            std::size_t left = count;
            for (int rank = 0; rank < size; ++rank) {
                parts.push_back(rank == size - 1 ? left : (rank % 3 == 1 ? 0 : left / 2));
                left -= parts.back();
            }
            std::vector<std::vector<double>> results;
            for (const std::size_t part : parts)
                results.push_back(poisoned<double>(part));
            const auto* reduction = mpi_bridge::find_reduction(MPIB_FLOAT64, MPIB_SUM);
            run(size, [&](Conversation& talk) {
                const auto rank = static_cast<std::size_t>(talk.rank());
                return mpi_bridge::reduce_scatter_ring(talk, *reduction, in(data[rank]),
                                                       out(results[rank]), parts);
            });
            std::size_t offset = 0;
            for (const auto& result : results) {
                expect_reduced(result, offset, data, MPIB_SUM);
                offset += result.size();
            }
        }
    }
}

TEST(Broadcast, ReachesEveryRankFromEveryRoot) {
    for (const int size : sizes) {
        for (int root = 0; root < size; ++root) {
            for (const std::size_t count : counts) {
                const auto expected = random_values<std::uint8_t>(count, count);
                std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(size),
                                                               poisoned<std::uint8_t>(count));
                buffers[static_cast<std::size_t>(root)] = expected;
                run(size, [&](Conversation& talk) {
                    auto& buffer = buffers[static_cast<std::size_t>(talk.rank())];
                    return mpi_bridge::broadcast_binomial(talk, Bytes(out(buffer), count), root);
                });
                for (const auto& buffer : buffers)
                    ASSERT_EQ(buffer, expected);
            }
        }
    }
}

TEST(Allgather, CollectsPartsOfDifferentLengthInTheirPlaces) {
    for (const int size : sizes) {
        for (const std::size_t count : counts) {
            const auto ranks = static_cast<std::size_t>(size);
            const auto whole = random_values<std::uint8_t>(count * ranks, count);
            std::vector<std::vector<std::uint8_t>> buffers(ranks,
                                                           poisoned<std::uint8_t>(whole.size()));
            const auto length_of = [&](std::size_t rank) {
                return rank % 2 == 0 ? count : count / 3;
            };
            run(size, [&](Conversation& talk) {
                const auto own = static_cast<std::size_t>(talk.rank());
                std::vector<Bytes> parts;
                for (std::size_t r = 0; r < ranks; ++r) {
                    parts.push_back(
                        Bytes(out(buffers[own]), whole.size()).subspan(r * count, length_of(r)));
                }
                if (!parts[own].empty()) {
                    std::memcpy(parts[own].data(), in(whole) + own * count, parts[own].size());
                }
                return mpi_bridge::allgather_ring(talk, parts);
            });
            for (const auto& buffer : buffers) {
                for (std::size_t i = 0; i < buffer.size(); ++i) {
                    const bool inside = i % count < length_of(i / count);
                    ASSERT_EQ(buffer[i], inside ? whole[i] : 0xA5) << "byte " << i;
                }
            }
        }
    }
}

TEST(Alltoall, DeliversPartsOfDifferentLength) {
    for (const int size : sizes) {
        for (const std::size_t count : counts) {
            const auto ranks = static_cast<std::size_t>(size);
            const auto message = [&](std::size_t from, std::size_t to) {
                return random_values<std::uint8_t>(count * ((from + 2 * to) % 3), from * 8 + to);
            };
            run(size, [&](Conversation& talk) {
                const auto own = static_cast<std::size_t>(talk.rank());
                std::vector<std::vector<std::uint8_t>> sent;
                std::vector<std::vector<std::uint8_t>> received;
                for (std::size_t r = 0; r < ranks; ++r) {
                    sent.push_back(message(own, r));
                    received.push_back(poisoned<std::uint8_t>(message(r, own).size()));
                }
                std::vector<ConstBytes> outgoing;
                std::vector<Bytes> incoming;
                for (auto& part : sent)
                    outgoing.emplace_back(in(part), part.size());
                for (auto& part : received)
                    incoming.emplace_back(out(part), part.size());
                auto done = mpi_bridge::alltoall_pairwise(talk, outgoing, incoming);
                for (std::size_t r = 0; r < ranks; ++r)
                    EXPECT_EQ(received[r], message(r, own));
                return done;
            });
        }
    }
}

TEST(Barrier, HoldsEveryRankUntilTheLastHasCome) {
    for (const int size : sizes) {
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
        post, mpi_bridge::Seconds(0.05));
    ASSERT_FALSE(outcomes[0]);
    EXPECT_EQ(outcomes[0].error().status, MPIB_ERROR_TIMEOUT);
    EXPECT_NE(outcomes[0].error().text.find("receiving from rank 2"), std::string::npos)
        << outcomes[0].error().text;
    EXPECT_NE(outcomes[0].error().text.find("step 0"), std::string::npos);
}

}  // namespace
