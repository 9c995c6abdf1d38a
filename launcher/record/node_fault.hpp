// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/record.hpp"
#include "base/timestamp.hpp"

// What a job has had to do with bad nodes, for an admin who looks at the jobs of all users. If
// site.lua wants it, `batchai run` leaves it in Slurm's comment on the job (job_comment.hpp), and
// `batchai admin check` looks for it. A user can write the same, so it is no proof.
namespace batchai::record {

enum class NodeFaultKind {
    lost,    // it could not be reached any more, or Slurm gave it up
    health,  // it failed a check of the site
    gpus,    // its GPUs could not be used
    links,   // its links to other nodes did not carry data as they should
    start,   // a task or a container could not be started there
    mount,   // a volume could not be mounted there
    hang,    // the job's "watch" has named a rank there that held up the others
    slow,    // the same with a rank that was much slower than the others
};
constexpr auto json_words(NodeFaultKind /*type*/) {
    return std::array{std::pair{std::string_view("lost"), NodeFaultKind::lost},
                      std::pair{std::string_view("health"), NodeFaultKind::health},
                      std::pair{std::string_view("gpus"), NodeFaultKind::gpus},
                      std::pair{std::string_view("links"), NodeFaultKind::links},
                      std::pair{std::string_view("start"), NodeFaultKind::start},
                      std::pair{std::string_view("mount"), NodeFaultKind::mount},
                      std::pair{std::string_view("hang"), NodeFaultKind::hang},
                      std::pair{std::string_view("slow"), NodeFaultKind::slow}};
}

struct NodeFault {
    std::string node;  // the name that Slurm has for it
    NodeFaultKind kind = NodeFaultKind::lost;
    base::Time time;  // in whole seconds

    bool operator==(const NodeFault&) const = default;
};

// Returns the comment with these faults besides those that it has. Of several of one kind on one
// node the last one stays, and the oldest ones are left out if the comment would become too long.
[[nodiscard]] std::string comment_with_node_faults(std::string_view comment,
                                                   const std::vector<NodeFault>& faults);

// Returns the faults that the comment tells of, the newest first. What has another form is passed
// over.
[[nodiscard]] std::vector<NodeFault> node_faults_in_comment(std::string_view comment);

}  // namespace batchai::record
