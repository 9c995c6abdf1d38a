// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/conversation.hpp"
#include "select/model.hpp"

namespace mpi_bridge {

// Measures the costs of the network between the ranks that converse, in a few milliseconds at
// most on any network that is worth it. Collective; all ranks get the same model, that of the
// slowest, rounded().
//
// All ranks exchange messages with their neighbours in the ring at once, so that ranks that share a
// network interface measure their share of it. In a ring of exchanges nobody can be ahead: a step
// takes as long as a message does.
[[nodiscard]] Outcome<Model> measure(Conversation& talk);

}  // namespace mpi_bridge
