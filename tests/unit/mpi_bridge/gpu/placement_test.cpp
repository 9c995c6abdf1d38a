// SPDX-License-Identifier: Apache-2.0
#include "gpu/placement.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace mpi_bridge;

// `ranks` ranks on one host, a GPU each.
std::vector<DeviceCard> cards(std::size_t ranks, int nccl_version = 22809) {
    std::vector<DeviceCard> all(ranks);
    for (std::size_t i = 0; i < ranks; ++i) {
        all[i].host[0] = 'k';
        all[i].bus_id[0] = static_cast<char>('a' + i);
        all[i].uuid[0] = static_cast<char>('A' + i);
        all[i].has_device = 1;
        all[i].nccl_version = nccl_version;
    }
    return all;
}

TEST(Placement, TakesNcclWhereEveryRankHasAGpuOfItsOwn) {
    const auto placement = place(cards(4));
    ASSERT_TRUE(placement);
    EXPECT_EQ(placement->path, DevicePath::nccl);
}

TEST(Placement, EqualBusAddressesOnTwoHostsAreTwoGpus) {
    auto two = cards(2);
    two[1].bus_id = two[0].bus_id;
    EXPECT_EQ(place(two)->path, DevicePath::staged);
    two[1].host[0] = 'l';
    EXPECT_EQ(place(two)->path, DevicePath::nccl);
}

TEST(Placement, FailsOnEveryRankWhereOneCannotTakePart) {
    auto three = cards(3);
    const std::string why = "there is no CUDA device 4";
    std::copy(why.begin(), why.end(), three[1].fault.begin());
    const auto placement = place(three);
    ASSERT_FALSE(placement);
    EXPECT_EQ(placement.error().text, "rank 1: there is no CUDA device 4");
}

TEST(Placement, StagesWhereRanksShareAGpu) {
    auto three = cards(3);
    three[2].bus_id = three[1].bus_id;
    three[2].uuid = three[1].uuid;
    const auto placement = place(three);
    ASSERT_TRUE(placement);
    EXPECT_EQ(placement->path, DevicePath::staged);
    EXPECT_EQ(placement->why, "ranks 1 and 2 share GPU b");
}

TEST(Placement, SharesAGpuOverNcclOnlyWhereTheUserAndTheVersionAllowIt) {
    for (const int version : {22907, 23003}) {
        for (const int enabled : {0, 1}) {
            auto two = cards(2, version);
            two[1].uuid = two[0].uuid;
            two[0].shared_gpu_enabled = two[1].shared_gpu_enabled = enabled;
            const bool shares = version >= 23000 && enabled == 1;
            EXPECT_EQ(place(two)->path, shares ? DevicePath::nccl : DevicePath::staged);
        }
    }
}

// As NCCL does, whose NCCL_HOSTID makes hosts of processes.
TEST(Placement, OneGpuOnTwoHostsIsNoObstacle) {
    auto two = cards(2);
    two[1].uuid = two[0].uuid;
    two[1].bus_id = two[0].bus_id;
    EXPECT_EQ(place(two)->path, DevicePath::staged);
    two[1].host[0] = 'l';
    EXPECT_EQ(place(two)->path, DevicePath::nccl);
}

TEST(Placement, StagesMixedGroupsAndSaysWhichRankIsTheReason) {
    auto mixed = cards(3);
    mixed[1] = DeviceCard{};
    EXPECT_EQ(place(mixed)->why, "the tensors of rank 1 are on the host");

    mixed = cards(3);
    mixed[2].nccl_version = 0;
    std::copy_n("NCCL was not found", 19, mixed[2].no_nccl.begin());
    EXPECT_EQ(place(mixed)->why, "on rank 2, NCCL was not found");

    mixed = cards(2);
    mixed[1].nccl_version = 22103;
    EXPECT_EQ(place(mixed)->why, "rank 0 has NCCL 2.28.9 but rank 1 has 2.21.3");
}

TEST(Placement, APathThatWasAskedForIsTakenOrRefused) {
    auto two = cards(2);
    const auto ask = [&](DevicePath path) {
        for (auto& card : two)
            card.wanted_path = static_cast<int>(path);
        return place(two);
    };
    EXPECT_EQ(ask(DevicePath::staged)->path, DevicePath::staged);
    EXPECT_EQ(ask(DevicePath::nccl)->path, DevicePath::nccl);
    two[1].uuid = two[0].uuid;
    EXPECT_EQ(ask(DevicePath::nccl).error().text,
              "NCCL was asked for, but ranks 0 and 1 share GPU b");
    EXPECT_NE(ask(DevicePath::ucx).error().text.find("not supported yet"), std::string::npos);
    two[0].wanted_path = 0;
    EXPECT_EQ(place(two).error().status, MPIB_ERROR_MISMATCH);
}

}  // namespace
