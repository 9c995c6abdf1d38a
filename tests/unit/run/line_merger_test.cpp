// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/line_merger.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scratch.hpp"

namespace {

// A file that keeps only a part of what was written, as on a file server whose disk is full.
struct {
    std::string path;  // empty: none
    off_t kept = 0;
} full_disk;

}  // namespace

// An NFS client tells a program of a full disk when it closes the file.
extern "C" int close(int descriptor) {
    std::array<char, 4096> path{};
    const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
    const bool full = !full_disk.path.empty() &&
                      readlink(link.c_str(), path.data(), path.size() - 1) > 0 &&
                      full_disk.path == path.data();
    const bool lost = full && truncate(path.data(), full_disk.kept) == 0;
    const auto status = static_cast<int>(syscall(SYS_close, descriptor));
    if (!lost) return status;
    errno = EDQUOT;
    return -1;
}

namespace batchai::run {

class LineMergerTest : public ScratchTest {
  protected:
    void SetUp() override {
        ScratchTest::SetUp();
        SetUpLogs();
    }
    void SetUpLogs() {
        logs = LogDirectory(path("logs"));
        ASSERT_TRUE(logs.make());
    }
    std::string merged() const { return text_of("logs/merged"); }
    std::vector<LineMerger::Source> sources(const std::vector<std::string>& names) const {
        std::vector<LineMerger::Source> out;
        for (const std::string& name : names)
            out.push_back({.path = path(name), .target = "merged"});
        return out;
    }

    LogDirectory logs{""};
};

TEST_F(LineMergerTest, NeverTearsALine) {
    LineMerger merger(sources({"0", "1"}), logs);
    append("0", "first\nsec");
    append("1", "other\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\n");
    append("0", "ond\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "first\nother\nsecond\n");
}

TEST_F(LineMergerTest, FinishBringsTheUnfinishedLine) {
    LineMerger merger(sources({"0", "never-written"}), logs);
    append("0", "a\nno newline");
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(merged(), "a\nno newline");
}

TEST_F(LineMergerTest, LosesNoByteOfALongStream) {
    LineMerger merger(sources({"0"}), logs);
    std::string all;
    for (int i = 0; i < 300; ++i) {
        const std::string piece = std::string(static_cast<std::size_t>(i) * 41U, 'x') + "\n";
        append("0", piece);
        all += piece;
        if (i % 7 == 0) {
            ASSERT_TRUE(merger.poll());
        }
    }
    // Longer than one block, without any newline.
    append("0", std::string(3U << 20U, 'y'));
    all += std::string(3U << 20U, 'y');
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.finish());
    EXPECT_TRUE(merged() == all);
}

TEST_F(LineMergerTest, CopiesTheOthersWhenASourceCannotBeRead) {
    std::filesystem::create_directory(path("0"));
    append("1", "other\n");
    LineMerger merger(sources({"0", "1"}), logs);
    EXPECT_FALSE(merger.poll());
    EXPECT_EQ(merged(), "other\n");
    append("1", "rest");
    EXPECT_FALSE(merger.finish());
    EXPECT_EQ(merged(), "other\nrest");
}

TEST_F(LineMergerTest, NeverFollowsALinkThatTookTheTargetsPlace) {
    append("0", "first\n");
    append("mine", "mine\n");
    LineMerger merger(sources({"0"}), logs);
    ASSERT_TRUE(merger.poll());
    std::filesystem::remove(path("logs/merged"));
    std::filesystem::create_symlink(path("mine"), path("logs/merged"));
    append("0", "second\n");
    EXPECT_FALSE(merger.finish());
    EXPECT_EQ(text_of("mine"), "mine\n");
}

// Breaks when a line that comes in pieces is copied before it is complete, or never.
TEST_F(LineMergerTest, WaitsForTheEndOfALineAmongSeveralSources) {
    LineMerger merger(sources({"0", "1"}), logs);
    append("0", "10 %\r");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "(no file)");
    append("0", "20 %\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "10 %\r20 %\n");
}

// Breaks when the progress bar of a job's only process is seen only once it is complete.
TEST_F(LineMergerTest, CopiesTheOnlySourceAsItGrows) {
    LineMerger merger(sources({"0"}), logs);
    append("0", "10 %\r");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "10 %\r");
}

struct Note {
    std::size_t source;
    std::uint64_t offset;
    std::size_t length;
    bool operator==(const Note&) const = default;
};

// Breaks when a rank's own file lacks bytes or has those of others, or when what is noted of it
// does not say where they are.
TEST_F(LineMergerTest, GivesEachSourceAFileOfItsOwnAndSaysWhatIsThere) {
    auto both = sources({"0", "1"});
    both[0].own = "own-0";
    both[1].own = "own-1";
    std::vector<Note> notes;
    LineMerger merger(both, logs,
                      [&](std::size_t source, std::uint64_t offset, std::size_t length) {
                          notes.push_back({source, offset, length});
                      });
    append("logs/own-1", "from before\n");
    append("0", "one\n");
    append("1", std::string("b\0\xffnary\nre", 10));
    ASSERT_TRUE(merger.poll());
    append("0", "two\n");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(text_of("logs/own-0"), "one\ntwo\n");
    EXPECT_EQ(text_of("logs/own-1"), "from before\n" + std::string("b\0\xffnary\nre", 10));
    EXPECT_EQ(merged(), "one\n" + std::string("b\0\xffnary\n", 8) + "two\nre");
    const std::vector<Note> expected{{0, 0, 4}, {1, 12, 8}, {0, 4, 4}, {1, 20, 2}};
    EXPECT_EQ(notes, expected);
}

// Breaks when what a task has printed is told twice or not at all, or only once it has been copied.
TEST_F(LineMergerTest, SaysWhatItHasSeenOnce) {
    std::string seen;
    LineMerger merger(sources({"0", "1"}), logs, {}, LineMerger::usual_patience,
                      [&](std::size_t source, std::string_view bytes) {
                          seen += std::to_string(source) + "<" + std::string(bytes) + ">";
                      });
    append("0", "one\ntw");
    append("1", "other\n");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(seen, "0<one\ntw>1<other\n>");
    std::filesystem::remove(path("logs/merged"));
    std::filesystem::create_directory(path("logs/merged"));
    append("0", "o\nthree\n");
    EXPECT_FALSE(merger.poll());
    EXPECT_FALSE(merger.poll());
    EXPECT_EQ(seen, "0<one\ntw>1<other\n>0<o\nthree\n>");
    // More than can be read before the first is copied.
    seen.clear();
    append("0", std::string(3 << 20U, 'x') + "\n");
    EXPECT_FALSE(merger.poll());
    EXPECT_FALSE(merger.poll());
    EXPECT_TRUE(seen.ends_with(">0<>")) << seen.size();
    seen.clear();
    EXPECT_FALSE(merger.poll());
    EXPECT_EQ(seen, "");
    append("0", "y\n");
    EXPECT_FALSE(merger.poll());
    EXPECT_EQ(seen, "0<>");
}

// Breaks when bytes are lost or repeated in one of the two files because the other one could not be
// written for a while.
TEST_F(LineMergerTest, TriesEachOfTheTwoFilesAgain) {
    auto one = sources({"0"});
    one[0].own = "own";
    LineMerger merger(one, logs);
    for (const char* blocked : {"own", "merged"}) {
        append("0", std::string("before ") + blocked + "\n");
        ASSERT_TRUE(merger.poll());
        std::filesystem::rename(path("logs") + "/" + blocked, path("aside"));
        std::filesystem::create_directory(path("logs") + "/" + blocked);
        append("0", "meanwhile\n");
        EXPECT_FALSE(merger.poll());
        append("0", "later\n");
        EXPECT_FALSE(merger.poll());
        std::filesystem::remove(path("logs") + "/" + blocked);
        std::filesystem::rename(path("aside"), path("logs") + "/" + blocked);
    }
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(merged(), text_of("0"));
    EXPECT_EQ(text_of("logs/own"), text_of("0"));
}

// Breaks when bytes that a full file server has lost count as copied, so that their only good copy
// is removed.
TEST_F(LineMergerTest, RemembersWhatTheFileSystemHasLost) {
    for (const std::string full : {"own", "merged"}) {
        SCOPED_TRACE(full);
        std::filesystem::remove_all(path("logs"));
        std::filesystem::remove(path("0"));
        SetUpLogs();
        auto one = sources({"0"});
        one[0].own = "own";
        std::vector<Note> notes;
        LineMerger merger(one, logs,
                          [&](std::size_t source, std::uint64_t offset, std::size_t length) {
                              notes.push_back({source, offset, length});
                          });
        append("0", "one\n");
        ASSERT_TRUE(merger.poll());
        append("0", "two\n");
        full_disk = {.path = std::filesystem::canonical(path("logs/" + full)), .kept = 6};
        EXPECT_FALSE(merger.poll());
        full_disk.path.clear();
        append("0", "three\n");
        ASSERT_TRUE(merger.poll());
        const auto finished = merger.finish();
        ASSERT_FALSE(finished);
        EXPECT_EQ(finished.error().where, full);
        // The rank's own file can be continued, because nobody else writes to it.
        EXPECT_EQ(text_of("logs/own"), "one\ntwo\nthree\n");
        const std::vector<Note> whole{{0, 0, 4}, {0, 4, 4}, {0, 8, 6}};
        const std::vector<Note> in_parts{{0, 0, 4}, {0, 4, 2}, {0, 6, 8}};
        EXPECT_EQ(notes, full == "own" ? in_parts : whole);
    }
}

// Breaks when the merged file ends where a rank's own file cannot be written any more.
TEST_F(LineMergerTest, GoesOnWithTheMergedFileWithoutARanksOwnOne) {
    ASSERT_TRUE(logs.make_directory("ranks"));
    auto both = sources({"0", "1"});
    both[0].own = "ranks/0";
    both[1].own = "ranks/1";
    LineMerger merger(both, logs);
    append("0", "before\n");
    ASSERT_TRUE(merger.poll());
    std::filesystem::remove_all(path("logs/ranks"));
    std::string all = "before\n";
    // Longer than the longest block.
    for (int i = 0; i < 3; ++i) {
        const std::string line = std::string(1U << 20U, 'x') + "\n";
        append("0", line);
        EXPECT_FALSE(merger.poll());
        all += line;
    }
    EXPECT_TRUE(merged() == all);
    // What would follow is not where it was noted.
    ASSERT_TRUE(logs.make_directory("ranks"));
    append("0", "end");
    EXPECT_FALSE(merger.finish());
    EXPECT_TRUE(merged() == all + "end");
    EXPECT_EQ(text_of("logs/ranks/0"), "");
}

// Breaks when a rank that prints faster than it can be copied keeps the others from being copied.
TEST_F(LineMergerTest, GoesOnWithTheNextSourceWhenItsTimeIsOver) {
    LineMerger merger(sources({"0", "1", "2"}), logs);
    for (const char* name : {"0", "1", "2"})
        append(name, std::string(name) + "\n");
    const auto over = LineMerger::Clock::now();
    ASSERT_TRUE(merger.poll(over));
    EXPECT_EQ(merged(), "0\n");
    append("0", "more\n");
    ASSERT_TRUE(merger.poll(over));
    ASSERT_TRUE(merger.poll(over));
    EXPECT_EQ(merged(), "0\n1\n2\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "0\n1\n2\nmore\n");
}

// What a rank's own file and the merged one get of a source that is truncated.
class TruncatedSourceTest : public LineMergerTest {
  protected:
    void truncate_and_write(const std::string& text) const {
        std::ofstream(path("0"), std::ios::trunc) << text;
    }
    [[nodiscard]] LineMerger merger_of(std::vector<LineMerger::Source> all) const {
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i].own = "own-" + std::to_string(i);
        return {all, logs};
    }
    void expect(const LineMerger& merger, const std::string& text) const {
        EXPECT_EQ(text_of("logs/own-0"), text);
        EXPECT_EQ(merged(), text);
        EXPECT_EQ(merger.truncated(), std::vector<std::size_t>{0});
    }
};

// Breaks when what follows "> /dev/stdout" is lost, because the file is shorter than what was
// copied.
TEST_F(TruncatedSourceTest, IsCopiedFromItsNewBegin) {
    LineMerger merger = merger_of(sources({"0"}));
    append("0", "many words before\n");
    ASSERT_TRUE(merger.poll());
    EXPECT_TRUE(merger.truncated().empty());
    truncate_and_write("x\n");
    ASSERT_TRUE(merger.poll());
    append("0", "end\n");
    ASSERT_TRUE(merger.finish());
    expect(merger, "many words before\nx\nend\n");
}

// Breaks when only the size of the file is looked at: it may have grown again between two looks.
TEST_F(TruncatedSourceTest, IsKnownThoughItIsLongerThanBefore) {
    LineMerger merger = merger_of(sources({"0"}));
    append("0", "short\n");
    ASSERT_TRUE(merger.poll());
    truncate_and_write("a text that is longer\n");
    ASSERT_TRUE(merger.poll());
    truncate_and_write("another of this size.\n");
    ASSERT_TRUE(merger.finish());
    expect(merger, "short\na text that is longer\nanother of this size.\n");
}

// Breaks when the file that is kept where the logs are not has other bytes than it is said to have.
TEST_F(TruncatedSourceTest, GetsItsBytesBack) {
    LineMerger merger = merger_of(sources({"0", "1"}));
    append("0", "before\n");
    append("1", "other\n");
    ASSERT_TRUE(merger.poll());
    truncate_and_write("x\n");
    ASSERT_TRUE(merger.finish());
    ASSERT_TRUE(merger.restore_truncated());
    EXPECT_EQ(text_of("0"), "before\nx\n");
    EXPECT_EQ(text_of("1"), "other\n");
}

// Breaks when what has been seen of a line that is not complete is lost with the file.
TEST_F(TruncatedSourceTest, LosesNothingOfAnUnfinishedLineThatHasBeenSeen) {
    LineMerger merger = merger_of(sources({"0", "1"}));
    append("0", "whole\nunfinished ");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "whole\n");
    truncate_and_write("end\n");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.finish());
    expect(merger, "whole\nunfinished end\n");
}

// Breaks when the hole is copied that a task leaves which writes without O_APPEND.
TEST_F(TruncatedSourceTest, IsCopiedWithoutTheHoleThatItThenHas) {
    LineMerger merger = merger_of(sources({"0"}));
    const std::string before = std::string(10000, 'x') + "\n";
    append("0", before);
    ASSERT_TRUE(merger.poll());
    truncate_and_write("");
    std::filesystem::resize_file(path("0"), before.size());
    append("0", "at its old place\n");
    ASSERT_TRUE(merger.finish());
    expect(merger, before + "at its old place\n");
}

// Breaks when zeros that a file server has not received yet are taken for another file.
TEST_F(TruncatedSourceTest, IsNoFileWhoseZerosAreReplacedLater) {
    LineMerger merger = merger_of(sources({"0"}));
    append("0", std::string("begin\n\0\0\0\0\n", 11));
    ASSERT_TRUE(merger.poll());
    truncate_and_write("begin\nlate\nend\n");
    ASSERT_TRUE(merger.finish());
    EXPECT_TRUE(merger.truncated().empty());
    EXPECT_EQ(merged(), std::string("begin\n\0\0\0\0\nend\n", 15));
}

// Breaks when a progress bar of one of several ranks is seen only once it is complete, or tears the
// lines of the merged file.
TEST_F(LineMergerTest, ShowsAnUnfinishedLineInTheOwnFileAfterAWhile) {
    auto both = sources({"0", "1"});
    both[0].own = "own-0";
    both[1].own = "own-1";
    std::vector<Note> notes;
    LineMerger merger(
        both, logs,
        [&](std::size_t source, std::uint64_t offset, std::size_t length) {
            notes.push_back({source, offset, length});
        },
        std::chrono::milliseconds(0));
    append("0", "10 %\r");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(text_of("logs/own-0"), "(no file)");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(text_of("logs/own-0"), "10 %\r");
    append("0", "20 %\r");
    append("1", "line\n");
    ASSERT_TRUE(merger.poll());
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(text_of("logs/own-0"), "10 %\r20 %\r");
    EXPECT_EQ(merged(), "line\n");
    append("0", "done\nrest");
    ASSERT_TRUE(merger.poll());
    EXPECT_EQ(merged(), "line\n10 %\r20 %\rdone\n");
    ASSERT_TRUE(merger.finish());
    EXPECT_EQ(text_of("logs/own-0"), "10 %\r20 %\rdone\nrest");
    EXPECT_EQ(merged(), "line\n10 %\r20 %\rdone\nrest");
    const std::vector<Note> expected{{0, 0, 5}, {1, 0, 5}, {0, 5, 5}, {0, 10, 5}, {0, 15, 4}};
    EXPECT_EQ(notes, expected);
}

}  // namespace batchai::run
