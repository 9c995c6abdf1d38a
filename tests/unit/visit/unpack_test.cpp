// SPDX-License-Identifier: GPL-2.0-or-later
// What a node may send must never be written outside of the place that the user named.
#include "visit/tar/unpack.hpp"

#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "tar_stream.hpp"
#include "visit/tar/pack.hpp"

namespace batchai::visit {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class UnpackTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = fs::temp_directory_path() / "unpack-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        scratch_ = name;
        fs::create_directories(scratch_ / "into");
        fs::create_directories(scratch_ / "outside");
    }
    void TearDown() override { fs::remove_all(scratch_); }

    // Unpacks the stream as "copy" and returns the error.
    std::string unpack(std::string_view stream) {
        const UnpackPlace place{
            .directory = {base::FileDescriptor(
                              open((scratch_ / "into").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
                          scratch_ / "into"},
            .top = "top",
            .name = "copy"};
        const auto unpacked = visit::unpack(
            place, [&] { return std::exchange(stream, {}); },
            [this](const std::string& remark) { remarks_.push_back(remark); });
        if (!unpacked) return unpacked.error().text();
        return unpacked->complete ? "" : "not complete";
    }
    std::string text_of(const fs::path& path) {
        return base::read_file(scratch_ / path).value_or("missing");
    }
    std::vector<std::string> names_outside() {
        std::vector<std::string> names;
        for (const auto& entry : fs::directory_iterator(scratch_ / "outside"))
            names.push_back(entry.path().filename());
        return names;
    }
    std::vector<std::string> names_inside() {
        std::vector<std::string> names;
        for (const auto& entry : fs::recursive_directory_iterator(scratch_ / "into"))
            names.push_back(entry.path().lexically_relative(scratch_ / "into"));
        return names;
    }

    fs::path scratch_;
    std::vector<std::string> remarks_;
};

TEST_F(UnpackTest, WritesFilesAndDirectories) {
    EXPECT_EQ(unpack(directory("./top") + file("./top/a", "A", 0755) + directory("./top/b") +
                     file("./top/b/c", "C") + tar_end()),
              "");
    EXPECT_EQ(text_of("into/copy/a"), "A");
    EXPECT_EQ(text_of("into/copy/b/c"), "C");
    EXPECT_NE(fs::status(scratch_ / "into/copy/a").permissions() & fs::perms::owner_exec,
              fs::perms::none);
    EXPECT_THAT(remarks_, IsEmpty());
}

TEST_F(UnpackTest, ReplacesAFileAndKeepsADirectory) {
    EXPECT_EQ(unpack(file("top", "one") + tar_end()), "");
    EXPECT_EQ(unpack(file("top", "two") + tar_end()), "");
    EXPECT_EQ(text_of("into/copy"), "two");
    EXPECT_THAT(unpack(directory("top") + tar_end()), HasSubstr("Not a directory"));
}

TEST_F(UnpackTest, PassesOverNamesThatLeadElsewhere) {
    for (const std::string name :
         {"../outside/x", "/etc/x", "top/../../outside/x", "other/x", "topx", ".bashrc", "top/..",
          "top//x", "top/./x", "./../top", ""}) {
        EXPECT_EQ(unpack(file(name, "evil") + tar_end()), "") << name;
        EXPECT_THAT(remarks_, Contains(HasSubstr("leads elsewhere"))) << name;
        remarks_.clear();
    }
    EXPECT_THAT(names_outside(), IsEmpty());
    EXPECT_THAT(names_inside(), IsEmpty());
}

TEST_F(UnpackTest, MakesNoLinksAndNoDevices) {
    const std::string header = file("top/x", "");
    for (const char type : {'1', '2', '3', '4', '6'}) {
        EXPECT_EQ(unpack(directory("top") + with_type(header, type) + tar_end()), "") << type;
        EXPECT_EQ(remarks_.size(), 1U) << type;
        remarks_.clear();
    }
    EXPECT_THAT(names_inside(), testing::ElementsAre("copy"));
}

// A link that is there already, or that somebody makes meanwhile.
TEST_F(UnpackTest, DoesNotFollowLinksThatAreThere) {
    fs::create_directories(scratch_ / "into/copy");
    fs::create_directory_symlink(scratch_ / "outside", scratch_ / "into/copy/sub");
    EXPECT_THAT(unpack(file("top/sub/x", "evil") + tar_end()), HasSubstr("symbolic link"));
    EXPECT_THAT(unpack(directory("top/sub") + tar_end()), HasSubstr("symbolic link"));
    EXPECT_THAT(names_outside(), IsEmpty());
    // The link itself is replaced, and what it leads to stays.
    std::ofstream(scratch_ / "outside/kept") << "kept";
    fs::create_symlink(scratch_ / "outside/kept", scratch_ / "into/copy/file");
    EXPECT_EQ(unpack(file("top/file", "new") + tar_end()), "");
    EXPECT_EQ(text_of("outside/kept"), "kept");
    EXPECT_EQ(text_of("into/copy/file"), "new");
}

TEST_F(UnpackTest, LeavesNothingOfAFileThatIsNotComplete) {
    EXPECT_EQ(unpack(file("top", std::string(1000, 'x')).substr(0, 900)), "not complete");
    EXPECT_THAT(names_inside(), IsEmpty());
}

// Breaks when holes are written out, or the last one is lost.
TEST_F(UnpackTest, AFileWithHolesHasItsSize) {
    const auto made = base::run({"sh", "-c",
                                 "cd \"$1\" && truncate -s 3M top && printf x | dd of=top bs=1 "
                                 "seek=1000000 conv=notrunc 2> /dev/null && tar -S -c top",
                                 "sh", (scratch_ / "outside").string()});
    ASSERT_TRUE(made);
    EXPECT_LT(made->standard_output.size(), 100000U);
    EXPECT_EQ(unpack(made->standard_output), "");
    const std::string text = text_of("into/copy");
    EXPECT_EQ(text.size(), 3U << 20U);
    EXPECT_EQ(text.find('x'), 1000000U);
}

TEST_F(UnpackTest, TakesWhatPackMakes) {
    fs::create_directories(scratch_ / "outside/source/inner");
    std::ofstream(scratch_ / "outside/source/a") << std::string(100000, 'a');
    std::ofstream(scratch_ / "outside/source/inner/b") << "b";
    fs::create_symlink("a", scratch_ / "outside/source/link");
    fs::create_directory_symlink("/", scratch_ / "outside/source/root");
    ASSERT_EQ(mkfifo((scratch_ / "outside/source/fifo").c_str(), 0600), 0);
    std::string stream;
    const auto packed = pack(
        scratch_ / "outside/source", {.top = "top"},
        [&](std::string_view bytes) {
            stream += bytes;
            return true;
        },
        [this](const std::string& remark) { remarks_.push_back(remark); });
    ASSERT_TRUE(packed);
    EXPECT_EQ(packed->files, 3U);
    EXPECT_TRUE(packed->passed_over);
    EXPECT_EQ(remarks_.size(), 2U);
    EXPECT_EQ(unpack(stream), "");
    EXPECT_EQ(text_of("into/copy/a"), std::string(100000, 'a'));
    EXPECT_EQ(text_of("into/copy/link"), std::string(100000, 'a'));
    EXPECT_EQ(text_of("into/copy/inner/b"), "b");
}

TEST_F(UnpackTest, EndsWhenTheReaderOfPackHasGoneAway) {
    std::ofstream(scratch_ / "outside/a") << "a";
    EXPECT_FALSE(
        pack(scratch_ / "outside/a", {.top = "a"}, [](std::string_view) { return false; }, {}));
}

TEST_F(UnpackTest, PackEndsTheStreamWithTheDirectoryThatItsReaderLooksFor) {
    std::ofstream(scratch_ / "outside/a") << "a";
    std::string stream;
    const auto packed = pack(scratch_ / "outside/a", {.top = "top", .last = "end"},
                             [&](std::string_view bytes) {
                                 stream += bytes;
                                 return true;
                             },
                             {});
    ASSERT_TRUE(packed);
    const std::string end = directory("end", 0700) + tar_end();
    ASSERT_GE(stream.size(), end.size());
    std::string last = stream.substr(stream.size() - end.size());
    // Breaks when the time is missing: tar would take that of 1970.
    EXPECT_NEAR(static_cast<double>(std::stol(last.substr(136, 11), nullptr, 8)),
                static_cast<double>(std::time(nullptr)), 60);
    // The time, and the sum of the header.
    last.replace(136, 20, end, 136, 20);
    EXPECT_EQ(last, end);
    EXPECT_EQ(packed->files, 1U);
}

// Breaks when the length is taken from what the file system says: that is 0 in /proc.
TEST_F(UnpackTest, GetsFilesThatAreLongerThanTheySay) {
    std::string stream;
    const auto packed = pack(
        "/proc/self/status", {.top = "top"},
        [&](std::string_view bytes) {
            stream += bytes;
            return true;
        },
        [](const std::string& remark) { ADD_FAILURE() << remark; });
    ASSERT_TRUE(packed);
    EXPECT_EQ(unpack(stream), "");
    EXPECT_THAT(text_of("into/copy"), HasSubstr("voluntary_ctxt_switches"));
    EXPECT_EQ(text_of("into/copy").size(), packed->bytes);
}

}  // namespace
}  // namespace batchai::visit
