// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/timestamp.hpp"
#include "record/node_fault.hpp"
#include "run/context.hpp"
#include "run/phases/phase.hpp"
#include "slurm/client.hpp"

namespace batchai::run {

// Returns the faults of nodes that an ending tells of; none if the job's own program or its user
// may as well be the cause. `nodes` is the number of those that the job was running on.
[[nodiscard]] std::vector<record::NodeFault> node_faults_of(const Ending& ending, std::size_t nodes,
                                                            base::Time time);

// Leaves the faults of an attempt's nodes in Slurm's comment on the job, if the job's plan says so.
// Otherwise it does nothing and asks nobody.
class NodeFaultNotes {
  public:
    NodeFaultNotes(const Context& context, slurm::Client client);

    void add(std::vector<record::NodeFault> faults);
    // Adds the job's nodes that Slurm says cannot start tasks. Slurm ends a job that has lost a
    // node without naming the node.
    void add_lost_nodes();
    // Tells Slurm what is new. A failure is only warned of, once, and the next call tries again.
    void leave();

  private:
    slurm::Client client_;
    std::string job_;  // its id in Slurm's commands
    std::vector<std::string> nodes_;
    bool on_;
    bool has_warned_ = false;
    std::vector<record::NodeFault> new_;
};

}  // namespace batchai::run
