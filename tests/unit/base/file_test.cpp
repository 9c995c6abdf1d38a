// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/file.hpp"

#include <cerrno>
#include <cstdlib>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace {

// After so many entries, the file server of all directories fails; negative: never.
int entries_before_failure = -1;

}  // namespace

// Takes the place of libc's for this program and its libraries.
extern "C" dirent* readdir(DIR* directory) {
    if (entries_before_failure == 0) {
        errno = ESTALE;
        return nullptr;
    }
    if (entries_before_failure > 0) --entries_before_failure;
    static const auto of_libc = reinterpret_cast<dirent* (*)(DIR*)>(dlsym(RTLD_NEXT, "readdir"));
    return of_libc(directory);
}

namespace batchai::base {

class FileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string name =
            (std::filesystem::temp_directory_path() / "batchai-file.XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    std::filesystem::path directory_;
};

TEST_F(FileTest, WriteAtomicallyReplacesAndKeepsTheMode) {
    const auto path = directory_ / "secret";
    ASSERT_TRUE(write_atomically(path, "one", 0600));
    ASSERT_TRUE(write_atomically(path, "two", 0600));
    EXPECT_EQ(read_file(path).value(), "two");
    struct stat status {};
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(FileTest, EntriesAreThoseThatCanBeRead) {
    for (const char* name : {"one", "two", "three"})
        ASSERT_TRUE(write_atomically(directory_ / name, ""));
    std::error_code code;
    EXPECT_EQ(entries_of(directory_, code).size(), 3U);
    EXPECT_FALSE(code);
    entries_before_failure = 4;  // "." and ".." are among them
    const auto some = entries_of(directory_, code);
    entries_before_failure = -1;
    EXPECT_EQ(some.size(), 2U);
    EXPECT_EQ(code.value(), ESTALE);
    EXPECT_TRUE(entries_of(directory_ / "missing", code).empty());
    EXPECT_EQ(code, std::errc::no_such_file_or_directory);
}

TEST_F(FileTest, CreateExclusivelyRefusesAnExistingFileAndLeavesItAlone) {
    const auto path = directory_ / "record";
    ASSERT_TRUE(create_exclusively(path, "first"));
    const auto second = create_exclusively(path, "second");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().exit_code, ExitCode::refused);
    EXPECT_EQ(read_file(path).value(), "first");
}

// What a server without its answer does is in remote.bats.
TEST_F(FileTest, RenameFileBelievesThatAFileIsGoneUnlessItIsAtItsNewName) {
    const auto from = directory_ / "from";
    const auto to = directory_ / "to";
    ASSERT_TRUE(write_atomically(from, "one"));
    EXPECT_TRUE(rename_file(from, to));
    EXPECT_EQ(read_file(to).value(), "one");
    EXPECT_FALSE(rename_file(from, to));
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(read_file(to).value(), "one");
    EXPECT_FALSE(rename_file(to, directory_ / "missing" / "to"));
    EXPECT_EQ(errno, ENOENT);
}

TEST_F(FileTest, MakeSymbolicLinkTakesOnlyTheSameLinkForItsOwn) {
    const auto name = (directory_ / "link").string();
    EXPECT_TRUE(make_symbolic_link("here", AT_FDCWD, name));
    EXPECT_TRUE(make_symbolic_link("here", AT_FDCWD, name));
    for (const char* const other : {"her", "here/too", "there"}) {
        EXPECT_FALSE(make_symbolic_link(other, AT_FDCWD, name));
        EXPECT_EQ(errno, EEXIST);
    }
}

TEST_F(FileTest, ReadFileNamesThePathAndTheLimit) {
    const auto path = directory_ / "big";
    ASSERT_TRUE(write_atomically(path, std::string(100, 'x')));
    const auto bytes = read_file(path, 10);
    ASSERT_FALSE(bytes);
    EXPECT_EQ(bytes.error().where, path.string());
    EXPECT_NE(bytes.error().what.find("10 bytes"), std::string::npos);
    EXPECT_EQ(read_file(directory_ / "none").error().exit_code, ExitCode::not_found);
}

TEST_F(FileTest, ReadFileRefusesWhatIsNoRegularFileAndNeverWaitsForIt) {
    const auto fifo = directory_ / "fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    for (const auto& path : {fifo, directory_, std::filesystem::path("/dev/null")}) {
        const auto bytes = read_file(path);
        ASSERT_FALSE(bytes) << path;
        EXPECT_EQ(bytes.error().where, path.string());
        EXPECT_EQ(bytes.error().what, "is not a regular file");
    }
}

TEST_F(FileTest, MakeDirectoriesRefusesAFileInTheWay) {
    ASSERT_TRUE(write_atomically(directory_ / "file", ""));
    EXPECT_FALSE(make_directories(directory_ / "file" / "below"));
    EXPECT_TRUE(make_directories(directory_ / "a" / "b" / "c"));
    EXPECT_TRUE(make_directories(directory_ / "a" / "b" / "c"));
}

TEST_F(FileTest, RemoveTreeTakesClosedDirectoriesAndLinksAndNothingElse) {
    namespace fs = std::filesystem;
    const auto outside = directory_ / "outside" / "kept";
    const auto tree = directory_ / "tree";
    fs::create_directories(outside.parent_path());
    fs::create_directories(tree / "closed" / "below");
    ASSERT_TRUE(write_atomically(outside, "x"));
    ASSERT_TRUE(write_atomically(tree / "closed" / "below" / "file", "x"));
    fs::create_directory_symlink(outside.parent_path(), tree / "link");
    ASSERT_EQ(mkfifo((tree / "fifo").c_str(), 0), 0);
    fs::permissions(tree / "closed" / "below", fs::perms::owner_read | fs::perms::owner_exec);
    fs::permissions(tree / "closed", fs::perms::none);
    EXPECT_TRUE(remove_tree(tree));
    EXPECT_FALSE(fs::exists(tree));
    EXPECT_TRUE(fs::exists(outside));
    EXPECT_TRUE(remove_tree(tree)) << "when it is not there";
    EXPECT_TRUE(remove_tree(tree / "nor" / "this"));
    EXPECT_TRUE(remove_tree(outside)) << "a file";
    EXPECT_FALSE(fs::exists(outside));
}

// Programs and images can make trees that are deeper than a process may have descriptors.
TEST_F(FileTest, RemoveTreeTakesTreesOfAnyDepth) {
    FileDescriptor at(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (int depth = 0; depth < 1800; ++depth) {
        ASSERT_EQ(mkdirat(at.get(), "deep", 0700), 0);
        at = FileDescriptor(openat(at.get(), "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        ASSERT_TRUE(at.valid());
    }
    const auto removed = remove_tree(directory_ / "deep");
    EXPECT_TRUE(removed) << removed.error().text();
    EXPECT_FALSE(std::filesystem::exists(directory_ / "deep"));
}

}  // namespace batchai::base
