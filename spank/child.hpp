// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "spank/job_group.hpp"

// Starts programs as the user, from root's slurmstepd.
namespace batchai::spank {

struct User {
    uid_t uid = 0;
    gid_t gid = 0;
    const gid_t* groups = nullptr;  // supplementary
    std::size_t group_count = 0;
};

// A program to start. Everything is prepared before fork(), because slurmstepd has threads: between
// fork and exec, only async-signal-safe functions may be called.
struct Program {
    std::vector<std::string> arguments;    // arguments[0] is an absolute path
    std::vector<std::string> environment;  // the program's whole environment
    std::vector<int> descriptors;          // become 3, 4, … in the program; all others are closed
    int reply = -1;                        // gets a reply if something fails before exec; -1: none
    JobGroup group;                        // in which it runs; none: in this process's
};

struct Child {
    pid_t pid = -1;
    int handle = -1;  // a pidfd: it names this process even after somebody has reaped it
};

// Starts `program` as `user`. The change of user is permanent: groups, all group ids and all user
// ids are set, and the child ends itself if it could become root again. Returns false if fork or
// pidfd_open fails; errno then says why.
[[nodiscard]] bool start_as_user(const Program& program, const User& user, Child& child);

// Waits until the descriptor is readable or at its end. Returns false if `seconds` pass first.
[[nodiscard]] bool wait_readable(int descriptor, int seconds);

// Root never waits longer than this for a process of the user's: `farewell_seconds` for it to end
// by itself and, once it has been killed, `seconds_to_die` for the kernel to end it. A stopped
// process is killed like any other. A process that does not end even then, because it hangs in a
// file system, is left to init.
inline constexpr int farewell_seconds = 6;
inline constexpr int seconds_to_die = 2;

// Gives the child `seconds` to end by itself, kills it if it has not ended, and reaps it. Returns
// its exit code, or -1 if it did not end by itself.
int end_child(Child& child, int seconds);

}  // namespace batchai::spank
