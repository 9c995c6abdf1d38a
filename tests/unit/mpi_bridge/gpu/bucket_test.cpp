// SPDX-License-Identifier: Apache-2.0
#include "gpu/bucket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace mpi_bridge;

std::vector<DevicePart> parts_of(const std::vector<std::size_t>& counts,
                                 std::vector<float>& memory) {
    memory.resize(100000);
    std::vector<DevicePart> parts;
    std::size_t at = 0;
    for (const std::size_t count : counts) {
        parts.push_back({memory.data() + at, memory.data() + at, count});
        at += count;
    }
    return parts;
}

TEST(Bucket, GivesEachTensorAnAlignedPlaceThatOverlapsNone) {
    std::vector<float> memory;
    const auto parts = parts_of({1, 0, 16, 17, 0, 5}, memory);
    const BucketLayout layout = lay_out(parts);
    EXPECT_THAT(layout.places, testing::ElementsAre(0, 16, 16, 32, 64, 64));
    EXPECT_EQ(layout.elements, 69U);
    EXPECT_EQ(lay_out({}).elements, 0U);
}

TEST(Bucket, SplitsMoreTensorsThanOneLaunchTakes) {
    std::vector<float> memory;
    const std::vector<std::size_t> counts(2 * kernels::most_pieces + 3, 20);
    const auto parts = parts_of(counts, memory);
    const auto launches = launches_for(parts, lay_out(parts), Way::pack, {});
    ASSERT_EQ(launches.size(), 3U);
    EXPECT_EQ(launches[0].pieces, kernels::most_pieces);
    EXPECT_EQ(launches[2].pieces, 3U);
    EXPECT_EQ(launches[1].first, launches[1].piece[0].place);
    EXPECT_EQ(launches[1].elements, 32U * (kernels::most_pieces - 1) + 20);
    EXPECT_EQ(launches[2].piece[2].address,
              reinterpret_cast<std::uintptr_t>(parts[counts.size() - 1].send));
}

TEST(Bucket, LeavesEmptyTensorsOut) {
    std::vector<float> memory;
    const auto parts = parts_of({0, 3, 0}, memory);
    const auto launches = launches_for(parts, lay_out(parts), Way::unpack, {});
    ASSERT_EQ(launches.size(), 1U);
    EXPECT_EQ(launches[0].pieces, 1U);
    EXPECT_TRUE(launches_for({}, lay_out({}), Way::pack, {}).empty());
}

TEST(Bucket, RefusesTensorsThatNoKernelCouldReach) {
    alignas(8) std::byte memory[16];
    EXPECT_TRUE(check_parts(std::vector<DevicePart>{{nullptr, nullptr, 0}}, 4));
    EXPECT_TRUE(check_parts(std::vector<DevicePart>{{memory, memory + 4, 2}}, 4));
    const auto null =
        check_parts(std::vector<DevicePart>{{memory, memory, 1}, {memory, nullptr, 1}}, 4);
    ASSERT_FALSE(null);
    EXPECT_EQ(null.error().text, "recv of part 1 is NULL");
    EXPECT_FALSE(check_parts(std::vector<DevicePart>{{memory + 2, memory, 1}}, 4));
    const std::size_t many = std::numeric_limits<std::size_t>::max() / 2;
    const auto large = check_parts(std::vector<DevicePart>{{memory, memory, many}}, 1);
    ASSERT_FALSE(large);
    EXPECT_EQ(large.error().status, MPIB_ERROR_INVALID_ARGUMENT);
}

}  // namespace
