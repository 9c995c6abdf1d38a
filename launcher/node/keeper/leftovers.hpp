// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>

#include "base/beneath.hpp"
#include "base/error.hpp"
#include "node/reply.hpp"

namespace batchai::node {

// A new run of the same job uses the container's directory again.
void forget_end(const base::Root& place);

// Notes that this run of the job is over (see end_claims), in its containers' directories too.
// False when it has left nothing here.
[[nodiscard]] bool note_end_of_job(const base::Root& node_root, const std::string& job_id);

// Ends the keepers of the job's ended runs, if they live, and with them the programs that serve
// their file systems; moves this process to a user namespace in which all files of the containers
// can be removed. Nothing happens when the job has none on this node. An error when, after so much
// patience, one still waits for remote storage to have what the job wrote.
[[nodiscard]] base::Result<void> prepare_to_remove_container(const base::Root& node_root,
                                                             const std::string& job_id,
                                                             std::chrono::seconds patience);

// Removes what jobs left here that ended with the node (it was started anew since), or whose
// clean-up has failed. Never of another user, never of a job that may live.
void remove_leftovers(const base::Root& node_root, const std::string& own_job_id,
                      const Trace& trace);

}  // namespace batchai::node
