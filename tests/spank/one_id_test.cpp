// SPDX-License-Identifier: GPL-2.0-or-later
// The filter for containers with one user id, in a user namespace that has one.
#include "spank/one_id.hpp"

#include <cerrno>
#include <fstream>

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/spank/hooks.hpp"

namespace {

constexpr uid_t other = 33;

// 0 when this process is root in a user namespace of its own in which nobody else is.
int become_the_only_id() {
    const uid_t user = geteuid();
    const gid_t group = getegid();
    if (unshare(CLONE_NEWUSER) != 0) return 1;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
    return getuid() == 0 ? 0 : 2;
}

TEST(OneId, AnswersChangesOfOwnersAndIdsAndDoesNothing) {
    const fake::Scratch scratch;
    const std::string file = scratch.file("file", "text").string();
    const fake::Ended ended = fake::in_process([&] {
        if (const int failed = become_the_only_id(); failed != 0) return failed;
        if (chown(file.c_str(), other, other) == 0) return 3;  // else there is nothing to test
        if (!batchai::spank::answer_id_changes()) return 4;
        if (chown(file.c_str(), other, other) != 0 || lchown(file.c_str(), other, other) != 0)
            return 5;
        if (fchownat(AT_FDCWD, file.c_str(), other, other, 0) != 0) return 6;
        const gid_t groups = other;
        if (setgroups(1, &groups) != 0 || setresgid(other, other, other) != 0) return 7;
        if (setresuid(other, other, other) != 0 || setuid(other) != 0) return 8;
        struct stat status {};
        if (stat(file.c_str(), &status) != 0 || status.st_uid == other || getuid() != 0) return 9;
        // Everything else is as before.
        return open("/nonexistent", O_RDONLY) == -1 && errno == ENOENT ? 0 : 10;
    });
    EXPECT_EQ(ended.exit_code, 0) << ended.errors;
}

}  // namespace
