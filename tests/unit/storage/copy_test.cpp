// SPDX-License-Identifier: GPL-2.0-or-later
#include "storage/copy.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/base/scratch.hpp"

namespace batchai::storage {
namespace {

namespace fs = std::filesystem;

class Copy : public testing::Test {
  protected:
    void SetUp() override {
        fs::create_directory(path("from"));
        fs::create_directory(path("to"));
        directory_ = base::FileDescriptor(open(path("to").c_str(), O_RDONLY | O_DIRECTORY));
        ASSERT_TRUE(directory_.valid());
    }

    [[nodiscard]] std::string path(const std::string& name) const {
        return (scratch_.path() / name).string();
    }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path(name), std::ios::binary) << text;
    }
    [[nodiscard]] std::string read(const std::string& name) const {
        return base::read_file(path(name)).value_or("cannot be read");
    }
    base::Result<void> copy(const std::string& from, const std::string& name) {
        const auto source = open_source(path(from));
        if (!source) return tl::unexpected(source.error());
        return copy_to(
            *source, directory_.get(), name, path("to/" + name),
            {.progress = [this](std::int64_t done) { done_ = done; }, .signals = signals_});
    }
    [[nodiscard]] std::size_t files_in_target() const {
        return static_cast<std::size_t>(std::distance(fs::directory_iterator(path("to")), {}));
    }

    Scratch scratch_;
    base::FileDescriptor directory_;
    base::HeldSignals signals_{SIGUSR1};
    std::int64_t done_ = -1;
};

TEST_F(Copy, CopiesTheBytesAndTellsHowFarItIs) {
    const std::string text(3'000'000, 'x');
    write("from/a", text);
    ASSERT_TRUE(copy("from/a", "b"));
    EXPECT_EQ(read("to/b"), text);
    EXPECT_EQ(done_, 3'000'000);
    EXPECT_EQ(files_in_target(), 1U);
}

TEST_F(Copy, ReplacesAnOldFileAndCopiesAnEmptyOne) {
    write("to/b", "old and longer");
    write("from/a", "");
    ASSERT_TRUE(copy("from/a", "b"));
    EXPECT_EQ(read("to/b"), "");
}

// Breaks when the new file is opened by its name.
TEST_F(Copy, ReplacesALinkAndNotWhatItLeadsTo) {
    write("secret", "keep");
    fs::create_symlink(path("secret"), path("to/b"));
    write("from/a", "new");
    ASSERT_TRUE(copy("from/a", "b"));
    EXPECT_EQ(read("secret"), "keep");
    EXPECT_EQ(read("to/b"), "new");
    EXPECT_FALSE(fs::is_symlink(path("to/b")));
}

TEST_F(Copy, KeepsHoles) {
    {
        const base::FileDescriptor file(open(path("from/a").c_str(), O_WRONLY | O_CREAT, 0600));
        ASSERT_EQ(pwrite(file.get(), "end", 3, 1L << 30), 3);
        ASSERT_EQ(ftruncate(file.get(), 3L << 30), 0);
    }
    ASSERT_TRUE(copy("from/a", "b"));
    struct stat status {};
    ASSERT_EQ(stat(path("to/b").c_str(), &status), 0);
    EXPECT_EQ(status.st_size, 3L << 30);
    EXPECT_LT(status.st_blocks, 20'000) << "in units of 512 bytes";
    const base::FileDescriptor copied(open(path("to/b").c_str(), O_RDONLY));
    char bytes[3] = {};
    ASSERT_EQ(pread(copied.get(), bytes, 3, 1L << 30), 3);
    EXPECT_EQ(std::string(bytes, 3), "end");
}

// Breaks when a log that is cut off replaces the copy of it that was whole.
TEST_F(Copy, OfAFileThatHasBecomeShorterIsNone) {
    write("to/b", "whole");
    write("from/a", "whole");
    for (const off_t size : {3, 0}) {
        const auto source = open_source(path("from/a"));
        ASSERT_TRUE(source);
        fs::resize_file(path("from/a"), static_cast<std::uintmax_t>(size));
        const auto copied = copy_to(*source, directory_.get(), "b", path("to/b"),
                                    {.progress = {}, .signals = signals_});
        ASSERT_FALSE(copied);
        EXPECT_NE(copied.error().text().find("has become shorter"), std::string::npos);
        EXPECT_EQ(read("to/b"), "whole");
        EXPECT_EQ(files_in_target(), 1U);
    }
}

TEST_F(Copy, CopiesAPart) {
    write("from/a", "0123456789");
    const auto copied = [&](const Range& range) {
        auto source = part_of(open_source(path("from/a")).value(), range);
        if (!source) return std::string("no such part");
        const auto done = copy_to(*source, directory_.get(), "b", path("to/b"),
                                  {.progress = {}, .signals = signals_});
        return done ? read("to/b") : done.error().text();
    };
    EXPECT_EQ(copied({}), "0123456789");
    EXPECT_EQ(copied({.first = 2, .last = 4}), "234");
    EXPECT_EQ(copied({.first = 9, .last = {}}), "9");
    EXPECT_EQ(copied({.first = {}, .last = 0}), "0");
    EXPECT_EQ(copied({.first = 5, .last = 100}), "56789");
    EXPECT_EQ(copied({.first = 10, .last = {}}), "no such part");
    EXPECT_EQ(copied({.first = 5, .last = 4}), "no such part");
}

TEST_F(Copy, LeavesNothingAfterASignal) {
    write("to/b", "old");
    write("from/a", std::string(3'000'000, 'x'));
    raise(SIGUSR1);
    const auto copied = copy("from/a", "b");
    ASSERT_FALSE(copied);
    EXPECT_NE(copied.error().what.find("interrupted"), std::string::npos);
    EXPECT_EQ(read("to/b"), "old");
    EXPECT_EQ(files_in_target(), 1U);
    ASSERT_TRUE(signals_.next());
}

TEST_F(Copy, LeavesNothingIfADirectoryHasTheName) {
    fs::create_directory(path("to/b"));
    write("from/a", "x");
    EXPECT_FALSE(copy("from/a", "b"));
    EXPECT_EQ(files_in_target(), 1U);
}

// Breaks when opening a FIFO waits for a writer.
TEST_F(Copy, RefusesWhatIsNoRegularFile) {
    ASSERT_EQ(mkfifo(path("from/fifo").c_str(), 0600), 0);
    EXPECT_FALSE(copy("from/fifo", "b"));
    EXPECT_FALSE(copy("from", "b"));
    EXPECT_FALSE(copy("/dev/zero", "b"));
    EXPECT_EQ(copy("from/none", "b").error().exit_code, base::ExitCode::not_found);
    EXPECT_EQ(files_in_target(), 0U);
}

TEST_F(Copy, KeepsAProgramExecutable) {
    write("from/a", "#!/bin/sh\n");
    ASSERT_EQ(chmod(path("from/a").c_str(), 0755), 0);
    ASSERT_TRUE(copy("from/a", "b"));
    EXPECT_EQ(access(path("to/b").c_str(), X_OK), 0);
}

}  // namespace
}  // namespace batchai::storage
