// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "base/file.hpp"

namespace batchai::run {

// A test with a directory of its own.
class ScratchTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "batchai-run.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    [[nodiscard]] std::string path(const std::string& name) const {
        return directory_ + "/" + name;
    }
    void append(const std::string& name, const std::string& text) const {
        std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
        std::ofstream(path(name), std::ios::app) << text;
    }
    [[nodiscard]] std::string text_of(const std::string& name) const {
        return base::read_file(path(name)).value_or("(no file)");
    }

    std::string directory_;
};

}  // namespace batchai::run
