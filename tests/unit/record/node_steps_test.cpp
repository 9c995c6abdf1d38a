// SPDX-License-Identifier: GPL-2.0-or-later
#include "record/node_steps.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::record {
namespace {

TEST(NodeSteps, AreReadBack) {
    const Scratch scratch;
    const JobFiles job(scratch.path());
    const base::Time begin = *base::from_iso8601("2026-06-21T10:00:00+00:00");
    {
        const NodeStepNote first(job, "h2", begin);
        const NodeStepNote second(job, "h2", begin + std::chrono::seconds(5));
        first.ready();
        first.end();
        const NodeStepNote other(job, "h1", begin + std::chrono::seconds(9));
    }
    const auto steps = node_steps(job);
    ASSERT_EQ(steps.size(), 3U);
    EXPECT_EQ(steps[0].node, "h1");
    EXPECT_EQ(steps[1].begin, begin);
    EXPECT_TRUE(steps[1].ready && steps[1].end);
    // It was killed, or still runs.
    EXPECT_FALSE(steps[2].ready || steps[2].end);
}

TEST(NodeSteps, PassOverDamagedLines) {
    const auto steps = node_steps_in(
        "1 begin 2026-06-21T10:00:00+00:00\n1 end\n2 end 2026-06-21T10:00:00+00:00\n"
        "1 ready yesterday\n\n1 explode 2026-06-21T10:00:00+00:00\nx\xff\xfe begin\n",
        "h1");
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_FALSE(steps[0].ready || steps[0].end);
}

TEST(NodeSteps, FollowNoLink) {
    const Scratch scratch;
    const JobFiles job(scratch.path());
    std::filesystem::create_directories(job.node_logs());
    const auto victim = scratch.path() / "victim";
    std::ofstream(victim) << "kept";
    std::filesystem::create_symlink(victim, job.node_steps("h1"));
    const NodeStepNote note(job, "h1", base::now());
    note.end();
    std::ifstream file(victim);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "kept");
    EXPECT_TRUE(node_steps(job).empty());
}

TEST(NodeSteps, OfAJobThatHasNotStartedAreNone) {
    const Scratch scratch;
    EXPECT_TRUE(node_steps(JobFiles(scratch.path() / "none")).empty());
}

}  // namespace
}  // namespace batchai::record
