// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "status/output_directory.hpp"

namespace batchai::status {
namespace {

namespace fs = std::filesystem;
using Look = FileFollower::Look;

class Following : public testing::Test {
  protected:
    void SetUp() override { fs::create_directories(root_); }
    void TearDown() override { fs::remove_all(root_); }

    void write(const std::string& name, const std::string& bytes, bool append = false) const {
        std::ofstream file(root_ / name, append ? std::ios::app : std::ios::trunc);
        file << bytes;
    }
    Look look() {
        const auto result = follower_.look([this](std::string_view bytes) {
            seen_ += bytes;
            return true;
        });
        EXPECT_TRUE(result) << result.error().text();
        return result.value_or(Look::stopped);
    }

    fs::path root_ = fs::temp_directory_path() / ("follow-" + base::random_uuid());
    FileFollower follower_{root_, "out.txt"};
    std::string seen_;
};

TEST_F(Following, AFileThatIsNotThereYetIsAbsent) {
    EXPECT_EQ(look(), Look::absent);
    write("out.txt", "a");
    EXPECT_EQ(look(), Look::read);
    EXPECT_EQ(look(), Look::nothing_new);
    EXPECT_EQ(seen_, "a");
}

TEST_F(Following, OnlyNewBytesAreGiven) {
    write("out.txt", "one\n");
    look();
    write("out.txt", "two", true);
    EXPECT_EQ(look(), Look::read);
    EXPECT_EQ(seen_, "one\ntwo");
}

TEST_F(Following, ATruncatedFileIsReadFromItsStart) {
    write("out.txt", "a long first attempt");
    look();
    write("out.txt", "second");
    EXPECT_EQ(look(), Look::restarted);
    EXPECT_EQ(seen_, "a long first attemptsecond");
}

TEST_F(Following, AReplacedFileIsDrainedBeforeTheNewOneBegins) {
    write("out.txt", "first ");
    look();
    write("out.txt", "tail ", true);
    fs::rename(root_ / "out.txt", root_ / "old.txt");
    write("out.txt", "new file that is longer than the old one");
    EXPECT_EQ(look(), Look::restarted);
    EXPECT_EQ(seen_, "first tail new file that is longer than the old one");
}

TEST_F(Following, NoByteIsLostWhileAnotherThreadWrites) {
    std::string wanted;
    std::mt19937 random(7);  // NOLINT: the same bytes in each run
    for (int i = 0; i < 400; ++i)
        wanted += std::string(random() % 3000, static_cast<char>('a' + i % 26)) + "\n";
    std::thread writer([&] {
        std::ofstream file(root_ / "out.txt");
        for (std::size_t at = 0; at < wanted.size(); at += 1777) {
            file << wanted.substr(at, 1777);
            if (at % 5 == 0) file.flush();
        }
    });
    while (seen_.size() < wanted.size() / 2)
        look();
    writer.join();
    look();
    EXPECT_EQ(seen_, wanted);
}

TEST_F(Following, AReaderThatGoesAwayStopsIt) {
    write("out.txt", "bytes");
    const auto result = follower_.look([](std::string_view) { return false; });
    EXPECT_EQ(result.value(), Look::stopped);
}

TEST_F(Following, ALinkOutOfTheDirectoryIsNotFollowed) {
    fs::create_symlink("/etc/passwd", root_ / "out.txt");
    const auto result = follower_.look([](std::string_view) { return true; });
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().exit_code, base::ExitCode::usage);
}

TEST_F(Following, ADirectoryIsListedByNameAndOneLevelDeep) {
    write("b.txt", "12345");
    fs::create_directories(root_ / "a" / "deeper");
    const auto entries = list_directory(root_, ".");
    ASSERT_TRUE(entries) << entries.error().text();
    ASSERT_EQ(entries->array()->size(), 2U);
    const auto& directory = entries->array()->at(0);
    EXPECT_EQ(directory["name"], base::Value("a"));
    EXPECT_EQ(directory["fileType"], base::Value("directory"));
    EXPECT_TRUE(directory["contentLength"].is_null());
    EXPECT_EQ(entries->array()->at(1)["contentLength"], base::Value(5));
}

TEST_F(Following, AListingNeverLeavesItsDirectory) {
    EXPECT_EQ(list_directory(root_, "..").error().exit_code, base::ExitCode::usage);
    EXPECT_EQ(list_directory(root_, "/etc").error().exit_code, base::ExitCode::usage);
    EXPECT_EQ(list_directory(root_, "absent").error().exit_code, base::ExitCode::not_found);
}

}  // namespace
}  // namespace batchai::status
