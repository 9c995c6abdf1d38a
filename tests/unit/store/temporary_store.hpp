// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "store/store.hpp"

namespace batchai::store {

// A store in a directory of its own that goes with the test.
class TemporaryStore : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "store.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        root_ = name;
        store_ = Store(root_ / "home");
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    // Group g, workspace w, experiment e.
    void create_parents() const {
        ASSERT_TRUE(store_.create(Group{{"g"}, "local", {}, base::now()}));
        ASSERT_TRUE(store_.create(Workspace{{"g", "w"}, "local", {}, base::now()}));
        ASSERT_TRUE(store_.create(Experiment{{"g", "w", "e"}, base::now()}));
    }

    static Job job(const std::string& name) {
        Job job;
        job.key = {"g", "w", "e", name};
        job.uuid = "00000000-0000-4000-8000-000000000001";
        job.cluster = "c";
        job.tool_type = "horovod";
        job.node_count = 4;
        job.properties = base::Value::Object{{"nodeCount", 4}, {"name", "ü\"\n"}};
        job.slurm_job_id = "12";
        job.creation_time = base::now();
        return job;
    }

    static void write(const std::filesystem::path& path, const std::string& text) {
        std::ofstream(path, std::ios::binary) << text;
    }

    std::filesystem::path root_;
    Store store_{"/nonexistent"};
};

}  // namespace batchai::store
