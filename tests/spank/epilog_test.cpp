// SPDX-License-Identifier: GPL-2.0-or-later
// The epilog on a node: what it removes, and what it says.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.hpp"
#include "tests/spank/step.hpp"

namespace {

using fake::Ended;
using fake::slurm;
using fake::Step;
using testing::HasSubstr;

class Epilog : public Step {
  protected:
    Ended epilog(std::vector<std::string> arguments) {
        return fake::in_process([&] {
            slurm().context = S_CTX_JOB_SCRIPT;
            fake::Plugin plugin(arguments);
            return plugin.call("slurm_spank_init") + plugin.call("slurm_spank_job_epilog");
        });
    }
};

TEST_F(Epilog, RemovesWhatTheJobLeftAndNothingElse) {
    plan.directories.node_root =
        (scratch.path() / ("batchai-" + std::to_string(slurm().uid))).string();
    plan.directories.job_temp = plan.directories.node_root + "/0123";
    plan.directories.mount_root = plan.directories.job_temp + "/cluster-mounts";
    plan.directories.job_mount_root = plan.directories.job_temp + "/mounts";
    plan.environment[0].value = plan.directories.job_mount_root;
    submit();
    ASSERT_EQ(run("touch " + plan.directories.job_temp + "/left; ln -s " + data.string() + " " +
                  plan.directories.job_temp + "/link")
                  .exit_code,
              0);
    const std::string other = plan.directories.node_root + "/4567";
    std::filesystem::create_directory(other);
    const std::vector<std::string> arguments{"node_program=" + node_program,
                                             "node_directory=" + scratch.path().string(),
                                             "runtime_directory=" + runtime_directory()};
    slurm().job_id = 4712;
    EXPECT_EQ(epilog(arguments).exit_code, 0);
    EXPECT_TRUE(std::filesystem::exists(plan.directories.job_temp)) << "another job's epilog";
    slurm().job_id = 4711;
    EXPECT_EQ(epilog(arguments).exit_code, 0);
    EXPECT_FALSE(std::filesystem::exists(plan.directories.job_temp));
    EXPECT_TRUE(std::filesystem::exists(other));
    EXPECT_TRUE(exists(data / "here")) << "a link was followed";
    EXPECT_TRUE(is_empty(std::filesystem::path(runtime_directory())));
}

// Breaks when the first node of a host to be done with the job keeps the others from cleaning up.
TEST_F(Epilog, CleansUpOnEachNodeOfAHost) {
    const auto ran = scratch.file("ran", "");
    std::filesystem::permissions(ran, std::filesystem::perms::all);
    const auto program =
        scratch.file("clean", "#!/bin/sh\necho $SLURMD_NODENAME >> " + ran.string() + "\n", true);
    const auto on_each_node = [](const std::function<Ended()>& work) {
        for (const char* node : {"n1", "n2"}) {
            setenv("SLURMD_NODENAME", node, 1);
            EXPECT_EQ(work().exit_code, 0) << node;
        }
        unsetenv("SLURMD_NODENAME");
    };
    const auto clean_up = [&] {
        return epilog(
            {"node_program=" + program.string(), "runtime_directory=" + runtime_directory()});
    };
    submit();
    on_each_node([&] { return run("true"); });
    on_each_node(clean_up);
    on_each_node(clean_up);
    EXPECT_EQ(batchai::base::read_file(ran).value_or("?"), "n1\nn2\n");
    EXPECT_TRUE(is_empty(std::filesystem::path(runtime_directory())));
}

TEST_F(Epilog, StartsNothingForAJobThatHadNoSandboxHere) {
    const auto noisy =
        scratch.file("noisy", "#!/bin/sh\ntouch " + (scratch.path() / "ran").string(), true);
    ASSERT_EQ(run("true").exit_code, 0);
    EXPECT_EQ(epilog({"node_program=" + noisy.string(), "runtime_directory=" + runtime_directory()})
                  .exit_code,
              0);
    EXPECT_FALSE(exists(scratch.path() / "ran"));
}

TEST_F(Epilog, SaysThatDataIsKeptOnTheNode) {
    std::filesystem::create_directories(runtime_directory());
    scratch.file("run/" + std::to_string(slurm().job_id), "");
    const auto program =
        scratch.file("kept", "#!/bin/sh\nexit " + std::to_string(BATCHAI_CLEAN_KEPT_DATA), true);
    const Ended ended =
        epilog({"node_program=" + program.string(), "runtime_directory=" + runtime_directory()});
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_THAT(ended.errors, HasSubstr("could neither be stored nor saved"));
    EXPECT_THAT(ended.errors, testing::Not(HasSubstr("the clean-up failed")));
}

TEST_F(Epilog, NeverFailsAndIsSoonOver) {
    const auto epilog_of_ours = [&](const std::string& program) {
        std::filesystem::create_directories(runtime_directory());
        scratch.file("run/" + std::to_string(slurm().job_id), "");
        return epilog({"node_program=" + program, "runtime_directory=" + runtime_directory()});
    };
    EXPECT_EQ(epilog_of_ours("/nonexistent").exit_code, 0);
    const auto failing = scratch.file("failing", "#!/bin/sh\nexit 1\n", true).string();
    EXPECT_EQ(epilog_of_ours(failing).exit_code, 0);
    const auto hanging =
        scratch.file("hanging", "#!/bin/sh\ntrap '' TERM\nkill -STOP $$\n", true).string();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(epilog_of_ours(hanging).exit_code, 0);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
