// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "collectives/conversation.hpp"
#include "collectives/group_layout.hpp"
#include "shm/node_stage.hpp"

namespace mpi_bridge {

// Two conversations of the whole group, for two consecutive calls.
struct OpeningCalls {
    Conversation& on_node;
    Conversation& everywhere;
};

// Opens shared memory among the members on this rank's node. Collective over the group, at least
// one node of which must have several members; a member that is alone on its node gets a stage of
// one.
//
// The launcher says which members share a node, and attaching proves it. If that fails for any
// member, all get nullptr, because members that used different ways would wait for each other.
// `why` is then the reason, if this rank knows it.
[[nodiscard]] Outcome<std::unique_ptr<NodeStage>> open_node_stage(const OpeningCalls& calls,
                                                                  const Layout& layout,
                                                                  NodeStage::Options options,
                                                                  std::string& why);

}  // namespace mpi_bridge
