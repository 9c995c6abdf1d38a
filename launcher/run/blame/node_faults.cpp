// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/blame/node_faults.hpp"

#include <cstdio>
#include <iterator>
#include <optional>
#include <utility>

#include "run/again/hosts.hpp"
#include "run/phases/gpu_check.hpp"
#include "run/phases/link_check.hpp"

namespace batchai::run {

namespace {

using record::EndedBy;
using record::NodeFaultKind;

std::optional<NodeFaultKind> fault_kind_of(const Ending& ending) {
    if (ending.by == EndedBy::health) return NodeFaultKind::health;
    if (!ending.of_node) return std::nullopt;
    if (ending.failure.code == gpu_check_failed) return NodeFaultKind::gpus;
    if (ending.failure.code == link_check_failed) return NodeFaultKind::links;
    switch (ending.by) {
        case EndedBy::node:
            return NodeFaultKind::lost;
        case EndedBy::start:
            return NodeFaultKind::start;
        case EndedBy::storage:
            return NodeFaultKind::mount;
        case EndedBy::hang:
            return NodeFaultKind::hang;
        case EndedBy::slow:
            return NodeFaultKind::slow;
        default:
            return std::nullopt;
    }
}

// What fails on all nodes of a job is probably the job's own fault, as is a rank that holds up the
// others on the only node.
bool tells_nodes_apart(NodeFaultKind kind, std::size_t bad, std::size_t nodes) {
    switch (kind) {
        case NodeFaultKind::start:
        case NodeFaultKind::mount:
        case NodeFaultKind::gpus:
            return nodes == 1 || bad < nodes;
        case NodeFaultKind::hang:
        case NodeFaultKind::slow:
            return bad < nodes;
        default:
            return true;
    }
}

}  // namespace

std::vector<record::NodeFault> node_faults_of(const Ending& ending, std::size_t nodes,
                                              base::Time time) {
    const auto kind = fault_kind_of(ending);
    const std::vector<std::string> bad = nodes_of(ending);
    std::vector<record::NodeFault> out;
    if (!kind || !tells_nodes_apart(*kind, bad.size(), nodes)) return out;
    for (const std::string& node : bad)
        out.push_back({.node = node, .kind = *kind, .time = time});
    return out;
}

NodeFaultNotes::NodeFaultNotes(const Context& context, slurm::Client client)
    : client_(client),
      job_(context.granted.id_in_commands()),
      nodes_(context.granted.nodes),
      on_(context.plan.note_failed_nodes) {}

void NodeFaultNotes::add(std::vector<record::NodeFault> faults) {
    std::move(faults.begin(), faults.end(), std::back_inserter(new_));
}

void NodeFaultNotes::add_lost_nodes() {
    if (!on_) return;
    for (const std::string& node : nodes_that_start_no_tasks(client_, nodes_))
        new_.push_back({.node = node, .kind = NodeFaultKind::lost, .time = base::now()});
}

void NodeFaultNotes::leave() {
    if (!on_ || new_.empty()) return;
    const auto left = slurm::JobId::parse(job_).and_then([&](const slurm::JobId& job) {
        return client_.edit_comment(job, [&](std::string_view comment) {
            return record::comment_with_node_faults(comment, new_);
        });
    });
    if (left)
        new_.clear();
    else if (!std::exchange(has_warned_, true))
        std::fprintf(stderr, "batchai: warning: Slurm is not told which nodes were bad: %s\n",
                     left.error().text().c_str());
}

}  // namespace batchai::run
