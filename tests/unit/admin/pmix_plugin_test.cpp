// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/pmix_plugin.hpp"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace batchai::admin {
namespace {

using namespace std::string_literals;

TEST(PmixPlugin, LoadsTheLibraryThatItsFileNames) {
    EXPECT_EQ(name_of_libpmix("\177ELF\0can not load libpmix.so here\0libpmix.so\0"s),
              "libpmix.so");
    EXPECT_EQ(name_of_libpmix("x\0libpmix.so.2\0"s), "libpmix.so.2");
    EXPECT_EQ(name_of_libpmix("x\0/opt/pmix/lib/libpmix.so\0"s), "/opt/pmix/lib/libpmix.so");
    EXPECT_EQ(name_of_libpmix("x\0libpmix.something\0libpmix.so"s), "");
    EXPECT_EQ(name_of_libpmix(""), "");
}

TEST(PmixPlugin, FindsALibraryOnlyByItsWholeName) {
    constexpr auto libraries =
        "2 libs found in cache `/etc/ld.so.cache'\n"
        "\tlibpmix.so.2 (libc6,x86-64) => /lib/libpmix.so.2\n"
        "\tlibpmi.so (libc6,x86-64) => /lib/libpmi.so\n";
    EXPECT_TRUE(is_cached(libraries, "libpmix.so.2"));
    EXPECT_FALSE(is_cached(libraries, "libpmix.so"));
    EXPECT_FALSE(is_cached("", "libpmix.so"));
}

class PmixPluginFile : public ::testing::Test {
  protected:
    void SetUp() override { std::filesystem::create_directories(directory_ + "/pmix"); }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(directory_ + "/" + name, std::ios::binary) << text;
    }
    [[nodiscard]] base::Result<PmixPlugin> look() const {
        return look_at_pmix_plugin("pmix", "/nowhere:" + directory_);
    }

    std::string directory_ = ::testing::TempDir() + "pmix-plugin-" + std::to_string(getpid());
};

TEST_F(PmixPluginFile, IsAnErrorIfItIsNotThere) {
    const auto found = look();
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().what.find("mpi_pmix.so"), std::string::npos);
}

TEST_F(PmixPluginFile, FindsTheLibraryInTheDirectoryThatSlurmWasBuiltWith) {
    write("mpi_pmix.so", "x\0"s + directory_ + "/pmix\0libpmix.so.987\0"s);
    const auto without = look();
    ASSERT_TRUE(without) << without.error().text();
    EXPECT_EQ(without->path, directory_ + "/mpi_pmix.so");
    EXPECT_EQ(without->library, "libpmix.so.987");
    EXPECT_FALSE(without->loadable);
    write("pmix/libpmix.so.987", "");
    const auto with = look();
    ASSERT_TRUE(with) << with.error().text();
    EXPECT_TRUE(with->loadable);
}

TEST_F(PmixPluginFile, FindsALibraryThatTheLinkerKnows) {
    write("mpi_pmix.so", "x\0libpmix.so.2\0"s);
    const auto found = look();
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_TRUE(found->loadable);
}

}  // namespace
}  // namespace batchai::admin
