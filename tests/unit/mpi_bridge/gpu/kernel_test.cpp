// SPDX-License-Identifier: Apache-2.0
//
// The kernels' way through memory, by the kernels' own code run on the host: every element moved
// once to its place, nothing else touched, whatever the tensors' sizes and alignments.
#include <random>

#include <gtest/gtest.h>

#include "packing.hpp"

namespace {

using namespace mpi_bridge;
using mpi_bridge_test::poison;

// Tensors in one block of memory, at offsets that are multiples of their elements' size only.
struct Tensors {
    std::vector<std::byte> memory;
    std::vector<DevicePart> parts;
    std::size_t element_bytes;

    Tensors(const std::vector<std::size_t>& counts, std::size_t bytes, unsigned seed)
        : element_bytes(bytes) {
        std::mt19937 random(seed);
        std::vector<std::size_t> offsets;
        std::size_t at = 0;
        for (const std::size_t count : counts) {
            at += bytes * (random() % 5);
            offsets.push_back(at);
            at += count * bytes;
        }
        memory.resize(at + 64);
        for (auto& byte : memory)
            byte = static_cast<std::byte>(random());
        // Vectors are aligned to 16 bytes, so the offsets are the alignments.
        for (std::size_t i = 0; i < counts.size(); ++i) {
            std::byte* tensor = memory.data() + offsets[i];
            parts.push_back({tensor, tensor, counts[i]});
        }
    }
};

void run_all(Codec codec, Way way, const Tensors& tensors, std::byte* bucket, unsigned lanes) {
    auto arguments = mpi_bridge_test::with_factor(1);
    arguments.bucket = reinterpret_cast<std::uintptr_t>(bucket);
    for (const auto& launch : launches_for(tensors.parts, lay_out(tensors.parts), way, arguments)) {
        run_on_host(codec, way, launch, lanes);
    }
}

std::vector<std::size_t> sizes_around_every_threshold(unsigned tile) {
    std::vector<std::size_t> counts = {1, 0, 2, 3, 15, 16, 17, 31, 33};
    for (const std::size_t near : {tile / 2, tile, tile * kernels::warps_per_block}) {
        for (const std::size_t count : {near - 1, near, near + 1})
            counts.push_back(count);
    }
    // More tensors than one launch takes, small ones many to a tile.
    for (std::size_t i = 0; i < kernels::most_pieces; ++i)
        counts.push_back(i % 40);
    return counts;
}

class CopyKernels : public testing::TestWithParam<std::tuple<Codec, unsigned>> {};

TEST_P(CopyKernels, MoveEveryByteOnceAndTouchNothingElse) {
    const auto [codec, lanes] = GetParam();
    const CodecShape shape = shape_of(codec);
    const Tensors tensors(sizes_around_every_threshold(shape.tile), shape.tensor_bytes, 7);
    const BucketLayout layout = lay_out(tensors.parts);
    std::vector<std::byte> bucket(layout.elements * shape.wire_bytes + 64, poison);
    run_all(codec, Way::pack, tensors, bucket.data(), lanes);

    std::vector<std::byte> expected(bucket.size(), poison);
    for (std::size_t i = 0; i < tensors.parts.size(); ++i) {
        const DevicePart& part = tensors.parts[i];
        if (part.count == 0) continue;
        std::memcpy(expected.data() + layout.places[i] * shape.wire_bytes, part.send,
                    part.count * shape.tensor_bytes);
    }
    ASSERT_EQ(bucket, expected);

    Tensors back = tensors;  // the parts must point into the copy's memory
    for (std::size_t i = 0; i < back.parts.size(); ++i) {
        const auto offset =
            static_cast<const std::byte*>(tensors.parts[i].send) - tensors.memory.data();
        back.parts[i].recv = back.memory.data() + offset;
        const std::size_t bytes = back.parts[i].count * shape.tensor_bytes;
        std::fill_n(back.memory.data() + offset, bytes, poison);
    }
    run_all(codec, Way::unpack, back, bucket.data(), lanes);
    EXPECT_EQ(back.memory, tensors.memory);
}

INSTANTIATE_TEST_SUITE_P(Kernels, CopyKernels,
                         testing::Combine(testing::Values(Codec::copy8, Codec::copy16,
                                                          Codec::copy32, Codec::copy64),
                                          testing::Values(1U, 32U)));

// Codecs whose two sides differ in size meet alignments that cannot be had on both.
class ConvertingKernels : public testing::TestWithParam<std::tuple<Codec, unsigned>> {};

TEST_P(ConvertingKernels, GiveTheSameForAnyAlignmentAndSplit) {
    const auto [codec, lanes] = GetParam();
    const CodecShape shape = shape_of(codec);
    const Tensors tensors(sizes_around_every_threshold(shape.tile), shape.tensor_bytes, 11);
    const BucketLayout layout = lay_out(tensors.parts);
    std::vector<std::byte> bucket(layout.elements * shape.wire_bytes + 64, poison);
    run_all(codec, Way::pack, tensors, bucket.data(), lanes);

    // Each element by itself.
    std::vector<std::byte> expected(bucket.size(), poison);
    for (std::size_t i = 0; i < tensors.parts.size(); ++i) {
        for (std::size_t k = 0; k < tensors.parts[i].count; ++k) {
            auto one = mpi_bridge_test::with_factor(1);
            one.bucket = reinterpret_cast<std::uintptr_t>(expected.data() + (layout.places[i] + k) *
                                                                                shape.wire_bytes);
            one.elements = 1;
            one.pieces = 1;
            one.piece[0] = {
                reinterpret_cast<std::uintptr_t>(tensors.parts[i].send) + k * shape.tensor_bytes, 0,
                1};
            run_on_host(codec, Way::pack, one);
        }
    }
    EXPECT_EQ(bucket, expected);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ConvertingKernels,
                         testing::Combine(testing::Values(Codec::i16_as_i32, Codec::i8_as_i64,
                                                          Codec::i64_as_pair, Codec::f16_as_key,
                                                          Codec::f64_as_key, Codec::scale_f32,
                                                          Codec::bool_as_u8),
                                          testing::Values(1U, 32U)));

TEST(Kernels, LaunchesCoverTheBucketAndNoMore) {
    const unsigned tile = shape_of(Codec::copy32).tile;
    EXPECT_EQ(blocks_for(Codec::copy32, 0), 0U);
    EXPECT_EQ(blocks_for(Codec::copy32, 1), 1U);
    EXPECT_EQ(blocks_for(Codec::copy32, tile * kernels::warps_per_block), 1U);
    EXPECT_EQ(blocks_for(Codec::copy32, tile * kernels::warps_per_block + 1), 2U);
}

}  // namespace
