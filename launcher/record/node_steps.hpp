// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

// When each step of a job began, could start its tasks and ended on each node, by the node's own
// clock. An attempt's record has the same times for the job as a whole, so only this file tells
// which node was slow. batchai-node appends a line to the node's file at each of these moments:
//
//     1750526118288000-4711 begin 2026-06-21T17:15:18.288000+00:00
//
// The first word identifies the step on its node. All of it is best effort: a line that cannot be
// written causes no failure, and a line that cannot be read is passed over.
namespace batchai::record {

struct NodeStep {
    std::string node{};
    base::Time begin{};
    std::optional<base::Time> ready{};  // the mounts and the container are there
    std::optional<base::Time> end{};    // none: it runs, or its node was lost

    bool operator==(const NodeStep&) const = default;
};

// Notes one step. The file stays open, because the process that notes the end is in namespaces in
// which the path may not exist.
class NodeStepNote {
  public:
    NodeStepNote(const JobFiles& job, std::string_view node, base::Time begin);

    void ready() const;
    void end() const;

  private:
    void line(std::string_view moment, base::Time time) const;

    std::string id_;
    base::FileDescriptor file_;
};

// Reads the text of a node's file. Steps are in the order of their lines "begin".
[[nodiscard]] std::vector<NodeStep> node_steps_in(std::string_view text, std::string_view node);

// Returns the steps of all nodes, sorted by node and time.
[[nodiscard]] std::vector<NodeStep> node_steps(const JobFiles& job);

}  // namespace batchai::record
