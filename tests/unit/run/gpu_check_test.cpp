// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/gpu_check.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"

namespace batchai::run {

namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

NodeReport good(std::string node, std::string driver = "550.54.15") {
    return {std::move(node),
            record::GpuReport{.fault = {}, .gpus = "2", .driver = std::move(driver)}};
}

constexpr const char* good_report =
    R"({"schema": "mpi_bridge-gpus/v1", "fault": "", "gpus": "2", "driver": "", "slow": "", )"
    R"("host": "20000000000", "direct": "", "peers": "0", "nccl": "", "allreduce": "", )"
    R"("ncclUnchecked": ""})";
constexpr const char* good_report_with_nccl =
    R"({"schema": "mpi_bridge-gpus/v1", "fault": "", "gpus": "2", "driver": "", "slow": "", )"
    R"("host": "20000000000", "direct": "", "peers": "0", "nccl": "", "allreduce": "9000000000", )"
    R"("ncclUnchecked": ""})";
constexpr const char* good_report_without_nccl =
    R"({"schema": "mpi_bridge-gpus/v1", "fault": "", "gpus": "2", "driver": "", "slow": "", )"
    R"("host": "20000000000", "direct": "", "peers": "0", "nccl": "", "allreduce": "", )"
    R"("ncclUnchecked": "no libnccl.so.2"})";

class GpuCheckPhase : public PhasesTest {
  protected:
    void SetUp() override {
        PhasesTest::SetUp();
        plan_.allocation.options = {{"gres", "gpu:2", plan::Origin::vm_size}};
    }
    // What the check on the two nodes reports; "" for nothing.
    void nodes_report(const std::string& first, const std::string& second, int exit_code) {
        steps_.answers.emplace_back([=, this](const StepRequest& request) {
            EXPECT_THAT(request.arguments, Contains("--ntasks-per-node=1"));
            EXPECT_THAT(request.arguments, Contains("--overlap"));
            EXPECT_GT(request.deadline.count(), 5);
            if (!first.empty()) append("job/attempts/1.gpus.0.json", first);
            if (!second.empty()) append("job/attempts/1.gpus.1.json", second);
            return StepResult{.exit_code = exit_code, .messages = {}, .stopped_by = {}};
        });
    }
};

}  // namespace

TEST(GpuVerdict, IsGoodForNodesThatAreAlike) {
    const GpuVerdict verdict = verdict_on({good("n1"), good("n2"), good("n3", "")});
    EXPECT_THAT(verdict.bad_nodes, IsEmpty());
    EXPECT_THAT(verdict.remarks, IsEmpty());
}

TEST(GpuVerdict, RemarksOnTheNodeWithAnotherDriverThanMost) {
    const GpuVerdict verdict = verdict_on({good("n1", "535.1"), good("n2"), good("n3")});
    EXPECT_THAT(verdict.bad_nodes, IsEmpty());
    EXPECT_THAT(verdict.remarks,
                ElementsAre("n1: its NVIDIA driver is 535.1, that of the other nodes 550.54.15"));
    // Of two, nobody knows which one is right; the later one is named.
    EXPECT_THAT(verdict_on({good("n1", "535.1"), good("n2")}).remarks,
                ElementsAre("n2: its NVIDIA driver is 550.54.15, that of the other nodes 535.1"));
}

TEST(GpuVerdict, NamesTheBadNodesAndRemarksOnTheRest) {
    NodeReport slow = good("n1");
    slow.report->slow = "GPU 1 copies 1 GB/s, the others 20";
    NodeReport missing{"n2", record::GpuReport{.fault = "CUDA sees 1", .gpus = "1"}};
    NodeReport broken{"n3", record::GpuReport{.fault = "GPU 0: no memory", .gpus = "2"}};
    const GpuVerdict verdict = verdict_on({slow, missing, broken, {"n4", std::nullopt}});
    EXPECT_THAT(verdict.bad_nodes, ElementsAre("n2", "n3"));
    EXPECT_EQ(verdict.fault, "CUDA sees 1");
    EXPECT_THAT(verdict.remarks,
                ElementsAre("n1: GPU 1 copies 1 GB/s, the others 20", "n2: CUDA sees 1",
                            "n3: GPU 0: no memory", "the GPUs of n4 were not checked"));
    EXPECT_THAT(verdict_on({slow, {"n4", std::nullopt}}).bad_nodes, IsEmpty());
}

TEST(GpuVerdict, RemarksOnTheNodeWhoseGpusAreSlow) {
    const auto node = [](std::string name, std::string host, std::string peers) {
        NodeReport with_speeds = good(std::move(name));
        with_speeds.report->host = std::move(host);
        with_speeds.report->peers = std::move(peers);
        return with_speeds;
    };
    // One of two, and what is not known is not compared.
    EXPECT_THAT(
        verdict_on({node("n1", "20000000000", "3000000000"),
                    node("n2", "21000000000", "250000000000"),
                    node("n3", "", "0"),
                    {"n4", std::nullopt}})
            .remarks,
        ElementsAre("the GPUs of n4 were not checked",
                    "n1: its GPUs copy to each other at 3.0 GB/s, those of other nodes 250.0"));
    EXPECT_THAT(verdict_on({node("n1", "20000000000", ""), node("n2", "9000000000", ""),
                            node("n3", "22000000000", "12000000000")})
                    .remarks,
                ElementsAre("n2: its GPUs copy from and to the host at 9.0 GB/s, those of other "
                            "nodes 20.0"));
    EXPECT_THAT(
        verdict_on({node("n1", "10000000000", "1"), node("n2", "20000000000", "0")}).remarks,
        IsEmpty());
    NodeReport other = node("n2", "90000000000", "");
    other.report->gpus = "8";
    EXPECT_THAT(verdict_on({node("n1", "10000000000", ""), other}).remarks, IsEmpty());
}

TEST(GpuVerdict, RemarksOnTheNodeWhoseGpusReduceSlowly) {
    NodeReport slow = good("n1");
    slow.report->allreduce = "20000000000";
    NodeReport fast = good("n2");
    fast.report->allreduce = "230000000000";
    EXPECT_THAT(
        verdict_on({slow, fast}).remarks,
        ElementsAre("n1: its GPUs reduce over NCCL at 20.0 GB/s, those of other nodes 230.0"));
}

TEST(GpuVerdict, DoesNotEndAJobForDirectCopiesOrNccl) {
    NodeReport changes = good("n1");
    changes.report->direct = "GPU 0 to GPU 1: what is copied directly arrives changed";
    NodeReport wrong = good("n2");
    wrong.report->nccl = "wrong sums of an allreduce over NCCL on GPU 1";
    const GpuVerdict verdict = verdict_on({changes, wrong});
    EXPECT_THAT(verdict.bad_nodes, IsEmpty());
    EXPECT_THAT(verdict.remarks,
                ElementsAre("n1: GPU 0 to GPU 1: what is copied directly arrives changed",
                            "n2: wrong sums of an allreduce over NCCL on GPU 1"));
}

TEST(GpuCheck, IsWantedWithGpusUnlessItIsTurnedOff) {
    plan::Plan plan;
    EXPECT_FALSE(wants_gpu_check(plan, "", ""));
    EXPECT_FALSE(wants_gpu_check(plan, "0", ""));
    EXPECT_TRUE(wants_gpu_check(plan, "2", "")) << "the user's own --gres";
    EXPECT_FALSE(wants_gpu_check(plan, "2", "0"));
    plan.allocation.options = {{"gpus-per-node", "2", plan::Origin::job_file}};
    EXPECT_TRUE(wants_gpu_check(plan, "", ""));
    plan.environment = {{gpu_check_variable, "0"}};
    EXPECT_FALSE(wants_gpu_check(plan, "", ""));
    plan.environment.push_back({gpu_check_variable, "1"});
    EXPECT_TRUE(wants_gpu_check(plan, "", "0")) << "the job file comes after the site";
}

TEST_F(GpuCheckPhase, ComesBeforeTheWireUpCheck) {
    nodes_report(good_report, good_report, 0);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "gpu-check 0", "wire-up 0", "ranks 0"));
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("the GPUs of 2 of 2 nodes were checked and can be used"));
}

TEST_F(GpuCheckPhase, DoesNotTellOfNcclThatIsThereOrThatAnOlderCheckDoesNotKnow) {
    nodes_report(good_report_with_nccl, good_report, 0);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"), Not(HasSubstr("NCCL")));
}

TEST_F(GpuCheckPhase, TellsOfNcclThatANodeLacks) {
    nodes_report(good_report_with_nccl, good_report_without_nccl, 0);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("NCCL was not checked on 1 of 2 nodes; on n2.invalid: no libnccl.so.2"));
}

TEST_F(GpuCheckPhase, EndsTheJobAtABadNode) {
    nodes_report(good_report,
                 R"({"schema": "mpi_bridge-gpus/v1", "fault": "CUDA sees 1 of the 2 GPUs", )"
                 R"("gpus": "1", "driver": "", "slow": "", "host": "", "direct": "", )"
                 R"("peers": "", "nccl": "", "allreduce": "", "ncclUnchecked": ""})",
                 1);
    EXPECT_EQ(attempt(), 1);
    EXPECT_THAT(phases(), ElementsAre("outputs 0", "gpu-check 1"));
    EXPECT_EQ(record_.ended_by, record::EndedBy::start);
    EXPECT_EQ(record_.failure->code, "GpuCheckFailed");
    EXPECT_EQ(record_.failure->node, "n2.invalid");
    EXPECT_EQ(record_.failure->first_error_line, "CUDA sees 1 of the 2 GPUs");
}

TEST_F(GpuCheckPhase, ThatCannotRunDoesNotEndTheJob) {
    nodes_report(good_report, "", 97);
    EXPECT_EQ(attempt(), 0);
    EXPECT_THAT(text_of("logs/execution-n1.invalid.log"),
                HasSubstr("the GPUs of n2.invalid were not checked"));
    steps_.answers.emplace_back([](const StepRequest&) -> base::Result<StepResult> {
        return base::fail("did not end within 60 s and was stopped", "srun");
    });
    ++granted_.restart;
    EXPECT_EQ(attempt(), 0);
}

}  // namespace batchai::run
