// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "record/task_reports.hpp"

// The site's checks of this node. They are the programs of a directory of the admin's and run as
// the job's user, so they can do nothing that the user could not do.
namespace batchai::node {

struct HealthRequest {
    std::string directory;
    int time_limit_seconds = 30;  // for each program
    int total_seconds = 120;
};

// A program ends with one of these codes. Any other, and a signal, means that the node has failed.
inline constexpr int health_ok = 0;
inline constexpr int health_warning = 10;
// What a shell returns if there is no such command, or if it cannot be run.
inline constexpr int command_not_executable = 126;
inline constexpr int command_not_found = 127;

// Runs the programs, one after the other in the order of their names. A program that somebody
// besides root could change is not run, and none is if that is so for the directory. A program that
// does not end in time has failed; it is killed, and left behind if it cannot be killed.
[[nodiscard]] record::HealthReport check_health(const HealthRequest& request);

// Tells the admin, by way of this node's syslog, which checks have failed. The message is one of
// the user's processes, and any user could send the same. May wait for a syslog daemon that hangs.
void tell_syslog(const record::HealthReport& report);

}  // namespace batchai::node
