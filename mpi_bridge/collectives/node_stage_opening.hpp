// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/conversation.hpp"
#include "collectives/layout.hpp"
#include "shm/node_stage.hpp"

namespace mpi_bridge {

// Two conversations of the whole group, of consecutive calls.
struct OpeningCalls {
    Conversation& on_node;
    Conversation& everywhere;
};

// Opens shared memory among the members on this rank's node. Collective over the group, at least
// one of whose nodes has several members; a member without company on its node gets a stage of one.
//
// That members share a node is what the launcher says, and proved here by attaching. Where that
// fails for any member, all get nullptr: members that took different ways would wait for each
// other. `why` is then the reason, where this rank knows it.
[[nodiscard]] Outcome<std::unique_ptr<NodeStage>> open_node_stage(const OpeningCalls& calls,
                                                                  const Layout& layout,
                                                                  NodeStage::Options options,
                                                                  std::string& why);

}  // namespace mpi_bridge
