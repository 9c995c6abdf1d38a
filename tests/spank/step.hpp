// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "plan/plan.hpp"
#include "plan/plan_file.hpp"
#include "spank/protocol.h"
#include "tests/spank/hooks.hpp"

namespace fake {

// A step of a job whose plan mounts one directory, with the real plugin and the real batchai-node.
class Step : public testing::Test {
  protected:
    Step() {
        slurm() = Slurm{};
        become_user_of_job(slurm());
        slurm().environment = {{"PATH", "/usr/bin:/bin"}, {"SLURMD_NODENAME", "n2"}};
        // The job's user may not be able to enter the build directory.
        std::filesystem::copy_file(BATCHAI_NODE, scratch.path() / "batchai-node");
        data = scratch.directory("data");
        scratch.file("data/here", "some data\n");
        plan.directories.node_root = (scratch.path() / "node").string();
        plan.directories.job_temp = plan.directories.node_root + "/0123";
        plan.directories.mount_root = plan.directories.job_temp + "/cluster-mounts";
        plan.directories.job_mount_root = plan.directories.job_temp + "/mounts";
        plan.directories.job_directory = scratch.directory("job").string();
        plan.directories.plan_directory = plan.directories.job_directory;
        plan.directories.shared_job_temp = plan.directories.job_directory + "/shared";
        plan.mounts = {data_mount()};
        plan.environment = {{"AZ_BATCHAI_JOB_MOUNT_ROOT", plan.directories.job_mount_root},
                            {"GREETING", "two\nlines"}};
    }

    [[nodiscard]] batchai::plan::Mount data_mount() const {
        batchai::plan::Mount mount;
        mount.kind = "azureFileShares";
        mount.name = "share";
        mount.source = data.string();
        mount.target = "deep/data";
        return mount;
    }

    // Puts the plan where a job's environment leads to it.
    void submit() {
        const std::string text = batchai::plan::to_json(plan);
        slurm().environment[BATCHAI_PLAN_VARIABLE] = scratch.file("job/plan.json", text).string();
        slurm().environment[BATCHAI_DIGEST_VARIABLE] = batchai::base::sha256_hex(text);
    }

    Ended run(const std::string& script, std::vector<std::string> arguments = {}) {
        arguments.push_back("node_program=" + node_program);
        arguments.push_back("runtime_directory=" + runtime_directory());
        Plugin plugin(arguments);
        return run_step(plugin, script);
    }

    // Where root notes the jobs that had a sandbox.
    [[nodiscard]] std::string runtime_directory() const {
        return (scratch.path() / "run").string();
    }

    Scratch scratch;
    std::filesystem::path data;
    std::string node_program = (scratch.path() / "batchai-node").string();
    batchai::plan::Plan plan;
};

}  // namespace fake
