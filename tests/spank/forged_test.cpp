// SPDX-License-Identifier: GPL-2.0-or-later
// What a user, or somebody else in the user's name, can put into the variables and files of our
// protocol: the step ends with a message, nothing of the host is changed, and nothing of another
// user's is read. (Whether a step is refused for a missing marker is in step_test.cpp.)
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/spank/step.hpp"

namespace {

using fake::Ended;
using fake::slurm;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

class Forged : public fake::Step {
  protected:
    // Runs a step that must not run, and returns what the user is told.
    std::string refused() {
        const Ended ended = run("echo ran");
        EXPECT_EQ(ended.exit_code, 1);
        EXPECT_EQ(ended.output, "") << "the task ran on the bare host";
        EXPECT_THAT(ended.errors, HasSubstr("batchai: node n2: "));
        EXPECT_LT(ended.errors.size(), 10000U);
        return ended.errors;
    }

    // As submit(), for a plan that is not a plan.
    void submit_bytes(const std::string& bytes) {
        slurm().environment[BATCHAI_PLAN_VARIABLE] = scratch.file("job/plan.json", bytes).string();
        slurm().environment[BATCHAI_DIGEST_VARIABLE] = batchai::base::sha256_hex(bytes);
    }

    // A directory of somebody else's; as root only.
    [[nodiscard]] std::filesystem::path others_directory() const {
        auto path = scratch.directory("others");
        EXPECT_EQ(chown(path.c_str(), 0, 0), 0);
        return path;
    }
};

TEST_F(Forged, PlansThatAreNoFilesAreRefusedAtOnce) {
    submit();
    ASSERT_EQ(mkfifo((scratch.path() / "fifo").c_str(), 0666), 0);
    const auto begin = std::chrono::steady_clock::now();
    for (const std::string& path :
         {std::string("/dev/zero"), std::string("/dev/tty"), (scratch.path() / "fifo").string(),
          scratch.path().string(), std::string("/proc/self/environ")}) {
        slurm().environment[BATCHAI_PLAN_VARIABLE] = path;
        EXPECT_THAT(refused(), HasSubstr(path));
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(Forged, PathsThatAreNoneAreRefused) {
    submit();
    for (const char* path : {"plan.json", "", "-", "../plan.json", "\xff\xfe"}) {
        slurm().environment[BATCHAI_PLAN_VARIABLE] = path;
        EXPECT_THAT(refused(), HasSubstr("BATCHAI_PLAN"));
    }
    slurm().environment[BATCHAI_PLAN_VARIABLE] = "/\xff\xfe\n\x1b[2J";
    refused();
}

TEST_F(Forged, PlansThatAreNoPlansAreRefusedWithTheirPath) {
    for (const std::string& bytes :
         {std::string(), std::string("\xff\xfe\0{", 4), std::string("[]"), std::string("{}"),
          std::string("{\"schema\": \"batchai-plan/v3\"}"), std::string(100000, '['),
          std::string("{\"schema\": \"batchai-plan/v99\"}")}) {
        submit_bytes(bytes);
        EXPECT_THAT(refused(), HasSubstr("plan.json")) << bytes.substr(0, 40);
    }
    submit_bytes(std::string(9UL << 20U, ' '));
    refused();
}

TEST_F(Forged, PlansCannotPlaceTheJobOutsideTheUsersOwnDirectory) {
    const std::string good = plan.directories.job_temp;
    for (const std::string& odd : {std::string("/etc/cron.d/x"), good + "/../../up",
                                   plan.directories.node_root + "x/y", std::string("relative")}) {
        plan.directories.job_temp = odd;
        plan.directories.job_mount_root = odd + "/mounts";
        submit();
        refused();
        EXPECT_FALSE(std::filesystem::exists(scratch.path() / "up"));
        EXPECT_FALSE(std::filesystem::exists("/etc/cron.d/x"));
    }
}

TEST_F(Forged, MountsCannotLeaveTheMountRoot) {
    for (const char* target : {"../../../data", "/etc", "a/../../b", "", ".", "a//b"}) {
        plan.mounts[0].target = target;
        submit();
        refused();
    }
}

TEST_F(Forged, PlacesOfRootStayAsTheyAre) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to have something of root's";
    const auto others = others_directory();
    ASSERT_EQ(chmod(others.c_str(), 0700), 0);
    plan.mounts[0].source = others.string();
    submit();
    const Ended looked = run("ls $AZ_BATCHAI_JOB_MOUNT_ROOT/deep/data; echo rc=$?");
    EXPECT_THAT(looked.output + looked.errors, Not(HasSubstr("rc=0")));
    plan.mounts[0].source = (others / "new").string();
    plan.mounts[0].create_source = true;
    submit();
    EXPECT_THAT(refused(), HasSubstr("Permission denied"));
    plan.mounts = {};
    const auto name_root = [&](const std::string& root) {
        plan.directories.node_root = root;
        plan.directories.job_temp = root + "/0123";
        plan.directories.job_mount_root = plan.directories.job_temp + "/mounts";
        plan.directories.mount_root = plan.directories.job_temp + "/cluster-mounts";
        submit();
    };
    for (const char* root : {"/etc", "/"}) {
        name_root(root);
        // For "nobody", who runs this test, all unknown users are itself.
        EXPECT_THAT(refused(),
                    AnyOf(HasSubstr("belongs to another user"), HasSubstr("Permission denied")));
    }
    // A directory of somebody else's is passed over for one beside it.
    name_root(others.string());
    EXPECT_EQ(run("echo ran").output, "ran\n");
    EXPECT_TRUE(is_empty(others));
}

TEST_F(Forged, JobDirectoriesOfSomebodyElseAreRefusedUnread) {
    if (geteuid() != 0) GTEST_SKIP() << "needs root to have something of root's";
    plan.secret_names = {"TOKEN"};
    const auto others = others_directory();
    scratch.file("others/secrets.json", R"({"TOKEN": "hush"})");
    plan.directories.job_directory = others.string();
    submit();
    EXPECT_THAT(refused(), HasSubstr("names a job directory other than its own"));
    EXPECT_FALSE(exists(others / "node"));
    plan.directories.plan_directory = others.string();
    submit();
    EXPECT_THAT(refused(), AllOf(HasSubstr("belongs to user 0"), Not(HasSubstr("hush"))));
    EXPECT_FALSE(exists(others / "node"));
}

TEST_F(Forged, AJobDirectoryWithALinkInItsPlaceIsRefused) {
    submit();
    const auto job = std::filesystem::path(plan.directories.job_directory);
    const auto moved = scratch.path() / "moved";
    rename(job, moved);
    std::filesystem::create_directory_symlink(moved, job);
    EXPECT_THAT(refused(), HasSubstr("is a symbolic link"));
    EXPECT_FALSE(exists(moved / "node"));
}

TEST_F(Forged, AJobDirectoryThatOthersCanWriteToIsRefused) {
    submit();
    ASSERT_EQ(chmod(plan.directories.job_directory.c_str(), 0777), 0);
    EXPECT_THAT(refused(), HasSubstr("can be written to by others"));
}

TEST_F(Forged, ProofsOfASandboxDoNotReplaceOne) {
    submit();
    slurm().environment[BATCHAI_PROOF_VARIABLE] = slurm().environment[BATCHAI_DIGEST_VARIABLE];
    slurm().environment.erase(BATCHAI_PLAN_VARIABLE);
    slurm().given["job-json"] = "job.json";
    EXPECT_THAT(refused(), HasSubstr("the plan did not reach this node"));
    slurm().environment[BATCHAI_PLAN_VARIABLE] = "";
    EXPECT_THAT(refused(), HasSubstr("BATCHAI_PLAN"));
}

TEST_F(Forged, VariablesThatAreTooLongOrNoTextDoNoHarm) {
    submit();
    for (const std::string& odd : {std::string(300000, 'x'), std::string("\xff\xfe\n;$(id)"),
                                   std::string("-1"), std::string("99999999999999999999 x y")}) {
        for (const char* name :
             {BATCHAI_MASTER_VARIABLE, BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_IDENTITY_VARIABLE,
              BATCHAI_DISABLE_VARIABLE, "SLURM_SUBMIT_DIR", "SLURM_RESTART_COUNT",
              "SLURMD_NODENAME", "SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES",
              "SLURM_LOCALID", "PMIX_SERVER_TMPDIR"}) {
            auto before = slurm().environment;
            slurm().environment[name] = odd;
            // The length of what a program may be given is Linux's own limit.
            const Ended ended = run("cat $AZ_BATCHAI_JOB_MOUNT_ROOT/deep/data/here");
            slurm().environment = before;
            if (odd.size() < 100000) {
                EXPECT_EQ(ended.exit_code, 0) << name << '=' << odd.substr(0, 40) << ended.errors;
                EXPECT_EQ(ended.output, "some data\n") << name;
            } else {
                EXPECT_LT(ended.exit_code, 128) << name << " made it crash";
            }
        }
    }
}

}  // namespace
