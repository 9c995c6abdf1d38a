// SPDX-License-Identifier: Apache-2.0
//
// The check of a host's GPUs: what it finds, and what it calls those it has found.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control.hpp"
#include "tools/gpus/compare.hpp"

namespace {

using namespace mpi_bridge;
using mpi_bridge_test::Standin;
using testing::HasSubstr;
using testing::StartsWith;

// Compares as many GPUs as the plan has.
Outcome<gpus::Speeds> compared(const std::string& plan, bool direct = true) {
    Standin::get().configure(plan.c_str());
    const cuda::Library& cuda = *TRY(cuda::library());
    int count = 0;
    TRY(cuda.check(cuda.device_count(&count), "cuDeviceGetCount"));
    std::vector<gpus::Gpu> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        all.emplace_back(cuda, i);
    return gpus::compare(all, direct);
}

std::string fault(const std::string& plan, bool direct = true) {
    const auto speeds = compared(plan, direct);
    return speeds ? "none" : speeds.error().text;
}

TEST(CheckOfGpus, MeasuresCopiesFromTheHostAndBetweenGpus) {
    const auto speeds = compared("devices=4");
    ASSERT_TRUE(speeds) << speeds.error().text;
    EXPECT_EQ(speeds->slow, "");
    EXPECT_GT(speeds->host, 0);
    EXPECT_GT(speeds->peers, 0);
    EXPECT_EQ(Standin::get().count("cuMemcpyPeerAsync"), 12);
}

TEST(CheckOfGpus, LeavesOutWhatDoesNotExist) {
    const auto alone = compared("devices=1");
    ASSERT_TRUE(alone) << alone.error().text;
    EXPECT_EQ(alone->peers, 0);
    const auto apart = compared("devices=3 peers=0");
    ASSERT_TRUE(apart) << apart.error().text;
    EXPECT_EQ(apart->peers, 0);
    EXPECT_EQ(apart->slow, "");
    // The user has NCCL copy through the host.
    const auto unwanted = compared("devices=2 garbles=1", false);
    ASSERT_TRUE(unwanted) << unwanted.error().text;
    EXPECT_EQ(Standin::get().count("cuMemcpyPeerAsync"), 0);
    EXPECT_EQ(fault("devices=0"), "none");
}

TEST(CheckOfGpus, NamesTheTwoBetweenWhichBytesChange) {
    EXPECT_THAT(fault("devices=3 garbles=2"),
                StartsWith("GPU 1 (PCI 0000:11:00.0) to GPU 2 (PCI 0000:12:00.0): what is copied "
                           "directly between the two arrives changed"));
}

TEST(CheckOfGpus, NamesTheGpuThatIsFarFromAllOthers) {
    const auto far = compared("devices=4 far=2");
    ASSERT_TRUE(far) << far.error().text;
    EXPECT_THAT(far->slow,
                StartsWith("GPU 2 (PCI 0000:12:00.0) copies to and from its nearest GPU 0."));
    // Of two, nobody knows which one it is: neither is slower than the other.
    const auto pair = compared("devices=2 far=1");
    ASSERT_TRUE(pair) << pair.error().text;
    EXPECT_EQ(pair->slow, "");
}

TEST(CheckOfGpus, NamesTheGpuThatIsSlowFromTheHost) {
    const auto slow = compared("devices=3 slow=1");
    ASSERT_TRUE(slow) << slow.error().text;
    EXPECT_THAT(slow->slow, StartsWith("GPU 1 (PCI 0000:11:00.0) copies 0."));
}

TEST(CheckOfGpus, TakesAGpuThatHasNoPlaceForOnePeerMore) {
    const auto speeds = compared("devices=2 fail=cuCtxEnablePeerAccess:1:711");
    ASSERT_TRUE(speeds) << speeds.error().text;
    EXPECT_EQ(Standin::get().count("cuMemcpyPeerAsync"), 1);
}

TEST(CheckOfGpus, SaysWhichCallFailedOnWhich) {
    EXPECT_THAT(
        fault("devices=2 fail=cuMemAlloc_v2:3:2"),
        StartsWith("GPU 1 (PCI 0000:11:00.0): cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY"));
    EXPECT_THAT(fault("devices=2 fail=cuDevicePrimaryCtxRetain:1:2"),
                HasSubstr("PrimaryCtxRetain"));
    EXPECT_THAT(fault("devices=2 fail=cuCtxEnablePeerAccess:2:999"),
                StartsWith("GPU 1 (PCI 0000:11:00.0) to GPU 0 (PCI 0000:10:00.0): "
                           "cuCtxEnablePeerAccess failed"));
    EXPECT_THAT(fault("devices=2 fail=cuMemcpyPeerAsync:1:719"),
                StartsWith("GPU 0 (PCI 0000:10:00.0) to GPU 1 (PCI 0000:11:00.0): "
                           "cuMemcpyPeerAsync failed: CUDA_ERROR_LAUNCH_FAILED"));
}

TEST(CheckOfGpus, TakesTheMedian) {
    EXPECT_EQ(gpus::median({3}), 3);
    EXPECT_EQ(gpus::median({5, 1}), 5);
    EXPECT_EQ(gpus::median({9, 1, 4}), 4);
}

}  // namespace
