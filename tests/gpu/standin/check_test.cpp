// SPDX-License-Identifier: Apache-2.0
//
// The check of a host's GPUs: what it finds, and what it calls those it has found.
#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control.hpp"
#include "tools/gpus/allreduce.hpp"
#include "tools/gpus/compare.hpp"

namespace {

using namespace mpi_bridge;
using mpi_bridge_test::Standin;
using testing::AllOf;
using testing::ElementsAre;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Le;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// As many GPUs as the plan has.
Outcome<std::vector<gpus::Gpu>> visible(const std::string& plan) {
    Standin::get().configure(plan.c_str());
    const cuda::Library& cuda = *TRY(cuda::library());
    int count = 0;
    TRY(cuda.check(cuda.device_count(&count), "cuDeviceGetCount"));
    std::vector<gpus::Gpu> all;
    all.reserve(static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i)
        all.emplace_back(cuda, i);
    return all;
}

Outcome<gpus::Speeds> with_host(const std::string& plan) {
    auto all = TRY(visible(plan));
    return gpus::compare_with_host(all);
}

// The pairs that were tried are added to `pairs`.
Outcome<gpus::Speeds> with_each_other(const std::string& plan,
                                      std::chrono::milliseconds time = std::chrono::minutes(1),
                                      std::vector<std::string>* pairs = nullptr) {
    auto all = TRY(visible(plan));
    TRY(gpus::compare_with_host(all));
    return gpus::compare_with_each_other(all, time, [&](const std::string& pair) {
        if (pairs != nullptr && std::find(pairs->begin(), pairs->end(), pair) == pairs->end())
            pairs->push_back(pair);
    });
}

std::string fault_of(const Outcome<gpus::Speeds>& speeds) {
    return speeds ? "none" : speeds.error().text;
}

Outcome<double> over_nccl(const std::string& plan) {
    auto all = TRY(visible(plan));
    TRY(gpus::compare_with_host(all));
    std::vector<std::string> stages;
    std::optional<Outcome<double>> told;
    const auto speed = gpus::allreduce_over_nccl(
        *TRY(nccl::library()), all,
        {.stage = [&](std::string_view stage) { stages.emplace_back(stage); },
         .outcome = [&](const Outcome<double>& outcome) { told = outcome; }});
    EXPECT_TRUE(told && told->has_value() == speed.has_value()) << plan;
    if (speed) {
        EXPECT_THAT(stages, ElementsAre("connecting the GPUs", "its first allreduce",
                                        "its further allreduces"));
    }
    return speed;
}

std::string fault_of(const Outcome<double>& speed) {
    return speed ? "none" : speed.error().text;
}

constexpr const char* first = "GPU 0 (PCI 0000:10:00.0)";
constexpr const char* second = "GPU 1 (PCI 0000:11:00.0)";
constexpr const char* third = "GPU 2 (PCI 0000:12:00.0)";

TEST(CheckOfGpus, MeasuresCopiesFromTheHostAndBetweenGpus) {
    std::vector<std::string> pairs;
    const auto speeds = with_each_other("devices=3", std::chrono::minutes(1), &pairs);
    ASSERT_TRUE(speeds) << speeds.error().text;
    EXPECT_EQ(speeds->slow, "");
    EXPECT_GT(speeds->usual, 0);
    EXPECT_THAT(
        pairs,
        ElementsAre(first + std::string(" to ") + second, second + std::string(" to ") + third,
                    third + std::string(" to ") + first, first + std::string(" to ") + third,
                    second + std::string(" to ") + first, third + std::string(" to ") + second));
    EXPECT_GE(Standin::get().count("cuCtxEnablePeerAccess"), 6);
    const auto host = with_host("devices=2");
    ASSERT_TRUE(host) << host.error().text;
    EXPECT_GT(host->usual, 0);
}

TEST(CheckOfGpus, LeavesOutWhatDoesNotExist) {
    for (const char* plan : {"devices=1", "devices=3 peers=0", "devices=0"}) {
        const auto speeds = with_each_other(plan);
        ASSERT_TRUE(speeds) << plan << speeds.error().text;
        EXPECT_EQ(speeds->usual, 0) << plan;
        EXPECT_EQ(speeds->slow, "") << plan;
    }
    EXPECT_EQ(Standin::get().count("cuMemcpyPeerAsync"), 0);
}

TEST(CheckOfGpus, EndsWhenTheTimeIsUp) {
    std::vector<std::string> pairs;
    const auto none = with_each_other("devices=4", std::chrono::milliseconds(0), &pairs);
    ASSERT_TRUE(none) << none.error().text;
    EXPECT_EQ(none->usual, 0);
    EXPECT_THAT(pairs, IsEmpty());
    // Each copy takes so long that there is time for one pair.
    const auto some = with_each_other("devices=4 far=0", std::chrono::milliseconds(50), &pairs);
    ASSERT_TRUE(some) << some.error().text;
    EXPECT_THAT(pairs, SizeIs(AllOf(Ge(1U), Le(2U))));
}

TEST(CheckOfGpus, NamesTheTwoBetweenWhichBytesChange) {
    EXPECT_EQ(fault_of(with_each_other("devices=3 garbles=2")),
              second + std::string(" to ") + third + ": what is copied directly arrives changed");
}

TEST(CheckOfGpus, NamesTheGpuThatIsFarFromAllOthers) {
    const auto far = with_each_other("devices=4 far=2");
    ASSERT_TRUE(far) << far.error().text;
    EXPECT_THAT(far->slow, StartsWith(third + std::string(": its fastest direct copy to or from "
                                                          "another GPU runs at 0.")));
    // Of two, nobody knows which one it is: neither is slower than the other.
    const auto pair = with_each_other("devices=2 far=1");
    ASSERT_TRUE(pair) << pair.error().text;
    EXPECT_EQ(pair->slow, "");
}

TEST(CheckOfGpus, NamesTheGpuThatIsSlowFromTheHost) {
    const auto slow = with_host("devices=3 slow=1");
    ASSERT_TRUE(slow) << slow.error().text;
    EXPECT_THAT(slow->slow, StartsWith(second + std::string(" copies 0.")));
}

TEST(CheckOfGpus, DoesNotUseAWayThatTheDriverDoesNotGive) {
    // No place for one peer more, memory that cannot be mapped, and anything else.
    for (const int code : {711, 205, 999}) {
        std::vector<std::string> pairs;
        const auto speeds = with_each_other(
            "devices=2 garbles=1 fail=cuCtxEnablePeerAccess:1:" + std::to_string(code),
            std::chrono::minutes(1), &pairs);
        ASSERT_TRUE(speeds) << speeds.error().text;
        EXPECT_GT(speeds->usual, 0) << "of the other direction";
        EXPECT_THAT(pairs, SizeIs(2));
    }
}

TEST(CheckOfGpus, SaysWhichCallFailedOnWhich) {
    EXPECT_THAT(fault_of(with_host("devices=2 fail=cuMemAlloc_v2:3:2")),
                StartsWith(second + std::string(": cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY")));
    EXPECT_THAT(fault_of(with_host("devices=2 fail=cuDevicePrimaryCtxRetain:1:2")),
                HasSubstr("PrimaryCtxRetain"));
    EXPECT_THAT(fault_of(with_each_other("devices=2 fail=cuMemcpyPeerAsync:1:2")),
                StartsWith(first + std::string(" to ") + second +
                           ": cuMemcpyPeerAsync failed: CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST(CheckOfGpus, ReducesOverNcclAmongAllGpus) {
    for (const char* plan : {"devices=2", "devices=3 delay=0"}) {
        const auto speed = over_nccl(plan);
        ASSERT_TRUE(speed) << speed.error().text;
        EXPECT_GT(*speed, 0);
    }
    // The first, one to see how long it takes, some that are timed, and one that is compared.
    EXPECT_GE(Standin::get().count("ncclAllReduce"), 3 * 4);
}

TEST(CheckOfGpus, MeasuresHowLongAnAllreduceOverNcclTakes) {
    const auto speed = over_nccl("devices=2 apart=1");
    ASSERT_TRUE(speed) << speed.error().text;
    EXPECT_LT(*speed, 32.0 * 1024 * 1024 / 0.5);
}

TEST(CheckOfGpus, NamesTheGpuWithWrongSums) {
    EXPECT_EQ(fault_of(over_nccl("devices=3 spoils=1")),
              std::string("wrong sums of an allreduce over NCCL on ") + second);
}

// Whoever fails, and wherever: the others are waiting for it by then, and go. They must not be
// blamed.
TEST(CheckOfGpus, SaysWhichCallOfNcclFailedOnWhich) {
    struct Fault {
        const char* plan;
        const char* call;
    };
    for (const auto& [plan, call] :
         {Fault{"fail=ncclCommInitRankConfig:2:2", "ncclCommInitRankConfig failed: "},
          Fault{"late=ncclCommInitRankConfig:1:3", "ncclCommInitRankConfig failed: "},
          Fault{"fail=ncclAllReduce:5:1", "ncclAllReduce failed: "},
          Fault{"late=ncclAllReduce:4:3", "ncclAllReduce failed: "},
          Fault{"notice=1 fail=ncclAllReduce:8:1", "ncclAllReduce failed: "}}) {
        EXPECT_THAT(fault_of(over_nccl(std::string("devices=2 ") + plan)),
                    AllOf(StartsWith("GPU "), HasSubstr(": the allreduce over NCCL, rank "),
                          HasSubstr(call), Not(HasSubstr("remote"))))
            << plan;
    }
    EXPECT_THAT(fault_of(over_nccl("devices=2 fail=ncclGetUniqueId:1:2")),
                StartsWith("ncclGetUniqueId failed: "));
    // The first two are those for copies.
    EXPECT_THAT(fault_of(over_nccl("devices=2 fail=cuStreamCreateWithPriority:3:2")),
                AllOf(StartsWith("GPU "), HasSubstr("cuStreamCreateWithPriority failed: ")));
}

TEST(CheckOfGpus, TakesTheMedian) {
    EXPECT_EQ(gpus::median({3}), 3);
    EXPECT_EQ(gpus::median({5, 1}), 5);
    EXPECT_EQ(gpus::median({9, 1, 4}), 4);
}

}  // namespace
