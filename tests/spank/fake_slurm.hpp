// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

#include "spank/slurm.hpp"

// Slurm's side of the interface, as far as the plugin uses it: the test program defines the spank_*
// functions, and the real batchai.so, loaded with dlopen, calls them as it would call slurmstepd's.
namespace fake {

struct Slurm {
    spank_context_t context = S_CTX_REMOTE;
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
    unsigned int job_id = 4711;
    unsigned int step_id = 0;
    unsigned int local_tasks = 1;
    unsigned int tasks = 1;  // of all nodes
    unsigned int node = 0;   // of this one, in the step
    unsigned int nodes = 1;
    unsigned int restarts = 0;              // known in the batch step
    unsigned int array = 0;                 // known in the batch step
    unsigned int array_task = 0xfffffffeU;  // NO_VAL
    int local_task = 0;
    unsigned int task = 0;
    int exit_status = 0;                             // of the task that has ended
    std::map<std::string, std::string> environment;  // the job's
    std::map<std::string, std::string> given;        // options that the user gave
    std::map<std::string, spank_option> registered;
    std::map<std::string, std::string> control;  // goes to slurmctld with the job
    std::vector<std::string> log;
    unsigned int removals = 0;  // calls of spank_unsetenv
    // What S_JOB_ENV points to.
    std::vector<std::string> entries;
    std::vector<char*> pointers;
};

// The one that the functions look at.
Slurm& slurm();

}  // namespace fake
