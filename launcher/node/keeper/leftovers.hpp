// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/reply.hpp"

namespace batchai::node {

// Removes the note that a run has ended, because a new run of the same job uses the container's
// directory again.
void forget_end(const base::Root& place);

// Notes that this run of the job is over, in the registry (see end_claims) and in the directories
// of the job's containers. Returns false if the job has left nothing here.
[[nodiscard]] base::Result<bool> note_end_of_job(const base::Root& node_root,
                                                 const std::string& job_id);

// Kills the keepers of the job's ended runs if they are still alive, and with them the programs
// that serve their file systems. Then moves this process into a user namespace in which all files
// of the containers can be removed. Does nothing if the job has no container on this node. Fails
// if, after `patience`, a keeper is still waiting for remote storage to receive what the job wrote.
[[nodiscard]] base::Result<void> prepare_to_remove_container(const base::Root& node_root,
                                                             const std::string& job_id,
                                                             std::chrono::seconds patience);

// Removes what was left here by jobs that a restart of the node interrupted or whose clean-up has
// failed or was never run, and by processes that have ended without cleaning up. Never removes
// anything of another user, or of a job that may still be running. Asks Slurm only about jobs that
// have claimed nothing for some minutes.
void remove_leftovers(const base::Root& node_root, const std::string& own_job_id,
                      const Trace& trace);

}  // namespace batchai::node
