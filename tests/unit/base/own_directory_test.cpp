// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.hpp"

namespace batchai::base {
namespace {

using testing::HasSubstr;

class OwnDirectory : public testing::Test {
  protected:
    OwnDirectory() {
        std::string name = testing::TempDir() + "own-XXXXXX";
        if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
        path = name;
    }
    ~OwnDirectory() override { std::filesystem::remove_all(path); }

    static std::string fault_of(const std::filesystem::path& directory) {
        const auto checked = check_own_directory(directory.string());
        return checked ? "" : checked.error().text();
    }

    std::filesystem::path path;
};

TEST_F(OwnDirectory, IsTaken) {
    EXPECT_EQ(fault_of(path), "");
}

TEST_F(OwnDirectory, IsRefusedWhenALinkIsInItsPlace) {
    std::filesystem::create_directory(path / "real");
    std::filesystem::create_directory_symlink(path / "real", path / "link");
    EXPECT_THAT(fault_of(path / "link"), HasSubstr("is a symbolic link"));
}

TEST_F(OwnDirectory, IsRefusedWhenOthersCanWriteToIt) {
    for (const mode_t mode : {0770U, 0702U, 01777U}) {
        ASSERT_EQ(chmod(path.c_str(), mode), 0);
        EXPECT_THAT(fault_of(path), HasSubstr("can be written to by others"));
    }
}

TEST_F(OwnDirectory, IsRefusedWhenItIsSomebodyElses) {
    if (geteuid() == 0) {
        ASSERT_EQ(chown(path.c_str(), 65534, 65534), 0);
        EXPECT_THAT(fault_of(path), HasSubstr("belongs to user 65534"));
    } else {
        EXPECT_THAT(fault_of("/"), HasSubstr("belongs to user 0"));
    }
}

TEST_F(OwnDirectory, IsRefusedWhenItIsMissingOrAFile) {
    EXPECT_THAT(fault_of(path / "gone"), HasSubstr("No such file"));
    std::ofstream(path / "file") << "x";
    EXPECT_THAT(fault_of(path / "file"), HasSubstr("is not a directory"));
}

}  // namespace
}  // namespace batchai::base
