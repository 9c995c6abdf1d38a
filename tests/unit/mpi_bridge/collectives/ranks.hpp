// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/algorithms/collectives.hpp"
#include "collectives/select/algorithms.hpp"
#include "tests/unit/mpi_bridge/in_process_transport.hpp"
#include "tests/unit/mpi_bridge/reference.hpp"

// Runs collectives as ranks that are threads, and makes and checks their data.
namespace mpi_bridge_test {

using mpi_bridge::Algorithm;
using mpi_bridge::algorithms;
using mpi_bridge::Allgather;
using mpi_bridge::Allreduce;
using mpi_bridge::Broadcast;
using mpi_bridge::Bytes;
using mpi_bridge::ConstBytes;
using mpi_bridge::Conversation;
using mpi_bridge::Done;
using mpi_bridge::Reduce;
using mpi_bridge::Reducer;
using mpi_bridge::ReduceScatter;
using mpi_bridge::Reduction;

constexpr int rank_counts[] = {1, 2, 3, 4, 5, 7, 8, 16};
// Segments of 64 bytes: around one segment, one round of the ring, and several of them.
constexpr std::size_t short_segment = 64;
constexpr std::size_t counts[] = {0, 1, 2, 7, 8, 9, 63, 64, 65, 255, 257, 1031};

// Runs `body` as every rank, a thread each, and returns what each got.
using Body = std::function<Done(Conversation&)>;
inline std::vector<Done> as_ranks(int size, const Body& body, Post& post,
                                  std::size_t segment_bytes = short_segment,
                                  mpi_bridge::Seconds patience = mpi_bridge::Seconds(30)) {
    std::vector<Done> outcomes(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
        threads.emplace_back([&, rank] {
            InProcessTransport transport(post, rank, size);
            mpi_bridge::Scratch scratch;
            Conversation::Call call;
            call.name = "test";
            call.sequence = 1;
            call.agreement = 5;
            call.patience = patience;
            call.tuning.segment_bytes = segment_bytes;
            Conversation talk(transport, scratch, call);
            outcomes[static_cast<std::size_t>(rank)] = body(talk);
        });
    }
    for (auto& thread : threads)
        thread.join();
    return outcomes;
}

// Expects every rank to succeed, and every message to be received.
inline void run(int size, const Body& body, std::size_t segment_bytes = short_segment) {
    Post post;
    for (const auto& outcome : as_ranks(size, body, post, segment_bytes)) {
        ASSERT_TRUE(outcome) << outcome.error().text;
    }
    EXPECT_EQ(post.left_over(), 0U);
}

inline std::size_t own(const Conversation& talk) {
    return static_cast<std::size_t>(talk.rank());
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
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <typename T>
std::vector<std::vector<T>> make_data(int size, std::size_t count) {
    std::vector<std::vector<T>> data;
    for (int rank = 0; rank < size; ++rank) {
        data.push_back(random_values<T>(count, count * 100 + static_cast<std::uint64_t>(rank)));
    }
    return data;
}

// Names the cases of a suite whose parameter is an algorithm.
template <typename Collective>
std::string algorithm_name(const testing::TestParamInfo<Algorithm<Collective>>& info) {
    return std::string(info.param.name);
}

// Whether results[i] is what `op` over element offset+i of every rank must give.
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

// The accumulators of what a rank has.
template <typename T>
std::vector<std::byte> loaded(const Reduction& reduction, const std::vector<T>& values) {
    std::vector<std::byte> accumulators(values.size() * reduction.accumulator_bytes);
    reduction.load(accumulators.data(), values.data(), values.size());
    return accumulators;
}

}  // namespace mpi_bridge_test
