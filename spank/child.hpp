// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

// Starting programs as the user, from root's slurmstepd.
namespace batchai::spank {

struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    const gid_t* groups = nullptr;  // supplementary
    std::size_t group_count = 0;
};

// Everything is prepared before fork(), because slurmstepd has threads: between fork and exec only
// async-signal-safe functions are called.
struct Program {
    std::vector<std::string> arguments;    // arguments[0] is an absolute path
    std::vector<std::string> environment;  // the whole of it
    std::vector<int> descriptors;          // become 3, 4, … of the program; all others are closed
    int reply = -1;                        // where a failure before exec is written, or -1
};

struct Child {
    pid_t pid = -1;
    int handle = -1;  // a pidfd: names this very process even after somebody else reaped it
};

// Starts `program` as `user`, for good: groups, all gids and all uids are set, and the child ends
// itself if it could become root again. False when fork or pidfd_open fail (errno says why).
[[nodiscard]] bool start_as_user(const Program& program, const User& user, Child& child);

// Waits until the descriptor is readable or at its end; false when `seconds` have passed first.
[[nodiscard]] bool wait_readable(int descriptor, int seconds);

// Root never waits longer than this for a process of the user's: `farewell_seconds` until it ends
// by itself, and, once it was killed, until the kernel has let it go. A stopped process is killed
// like any other. One that even then does not go (it hangs in a file system) is left to init.
inline constexpr int farewell_seconds = 6;
inline constexpr int seconds_to_die = 2;

// Gives the child `seconds` to end by itself, kills it then, and reaps it.
void end_child(Child& child, int seconds);

}  // namespace batchai::spank
