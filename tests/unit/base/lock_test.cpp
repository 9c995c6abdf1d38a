// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/lock.hpp"

#include <chrono>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.hpp"
#include "tests/unit/base/scratch.hpp"

namespace batchai::base {
namespace {

TEST(BootId, IsOneWord) {
    EXPECT_EQ(boot_id().size(), 36U);
    EXPECT_EQ(boot_id(), boot_id());
}

TEST(Holder, ComesBackFromItsText) {
    const Holder self = Holder::self();
    EXPECT_EQ(Holder::parse(self.text()), self);
    EXPECT_TRUE(self.is_here());
    EXPECT_FALSE(self.is_gone());
    EXPECT_NE(Holder::self().token, self.token);
    Holder of_a_bare_system = self;
    of_a_bare_system.boot = of_a_bare_system.process_namespace = "";
    EXPECT_EQ(Holder::parse(of_a_bare_system.text()), of_a_bare_system);
    EXPECT_FALSE(of_a_bare_system.is_here());
}

TEST(Holder, OfAnEarlierVersionHasNeitherHostNorToken) {
    const Holder self = Holder::self();
    const Holder read = Holder::parse(self.boot + " " + self.process_namespace + " " +
                                      std::to_string(self.process) + " " + self.start_time + "\n");
    EXPECT_EQ(read.start_time, self.start_time);
    EXPECT_TRUE(read.token.empty());
    EXPECT_TRUE(read.is_here());
    EXPECT_FALSE(read.is_gone());
}

TEST(Holder, IsGoneWithItsProcess) {
    Holder child = Holder::self();
    child.process = fork();
    if (child.process == 0) _exit(0);
    waitpid(child.process, nullptr, 0);
    EXPECT_TRUE(child.is_gone());
}

TEST(Holder, IsGoneWhenAnotherProcessHasItsNumber) {
    Holder other = Holder::self();
    other.start_time += '1';
    EXPECT_TRUE(other.is_gone());
}

TEST(Holder, IsNotKnownToBeGoneElsewhere) {
    Holder rebooted = Holder::self();
    rebooted.boot = "another";
    rebooted.start_time = "1";
    EXPECT_FALSE(rebooted.is_here());
    EXPECT_FALSE(rebooted.is_gone());
    Holder inside = Holder::self();
    inside.process_namespace = "pid:[1]";
    inside.start_time = "1";
    EXPECT_FALSE(inside.is_gone());
    for (const char* text :
         {"", "x", "host 1 token", "boot ns zero 1", "boot ns -1 1", "a b c d e"})
        EXPECT_FALSE(Holder::parse(text).is_here()) << text;
}

TEST(FileLock, IsWaitedForUntilTheTimeIsUp) {
    const Scratch scratch;
    const std::string path = (scratch.path() / "lock").string();
    const FileDescriptor mine(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    const FileDescriptor theirs(open(path.c_str(), O_RDWR | O_CLOEXEC));
    const auto now = std::chrono::steady_clock::now;
    {
        const auto lock = FileLock::take(theirs.get(), path);
        ASSERT_TRUE(lock) << lock.error().text();
        const auto begin = now();
        EXPECT_FALSE(lock_by(mine.get(), begin + std::chrono::milliseconds(50)));
        EXPECT_GE(now() - begin, std::chrono::milliseconds(50));
    }
    EXPECT_TRUE(lock_by(mine.get(), now()));
    EXPECT_NE(flock(theirs.get(), LOCK_EX | LOCK_NB), 0);
}

TEST(FileLock, ThatCannotBeTakenIsAnError) {
    // The kernel has no flock(2) for a descriptor that only stands for a path.
    const Scratch scratch;
    const FileDescriptor path_only(open(scratch.path().c_str(), O_PATH | O_CLOEXEC));
    const auto lock = FileLock::take(path_only.get(), "/some/directory");
    ASSERT_FALSE(lock);
    EXPECT_EQ(lock.error().text(), "/some/directory: cannot be locked: Bad file descriptor");
}

}  // namespace
}  // namespace batchai::base
