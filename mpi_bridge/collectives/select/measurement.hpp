// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collectives/conversation.hpp"
#include "collectives/select/model.hpp"

namespace mpi_bridge {

// Measures the costs of the network between the ranks of the conversation, which takes a few
// milliseconds at most on a fast network. Collective; all ranks get the same model, that of the
// slowest, rounded().
//
// All ranks exchange messages with their neighbours in the ring at once, so that ranks that share a
// network interface measure their share of it. In a ring of exchanges no rank can run ahead, so a
// step takes as long as a message does.
[[nodiscard]] Outcome<Model> measure(Conversation& talk);

}  // namespace mpi_bridge
