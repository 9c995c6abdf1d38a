// SPDX-License-Identifier: GPL-2.0-or-later
#include "admin/node_faults.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "record/job_comment.hpp"
#include "slurm/hostlist.hpp"

namespace batchai::admin {

namespace {

using record::NodeFaultKind;

constexpr std::chrono::hours day{24};
constexpr std::chrono::seconds longest_question{30};
// Slurm notes the end of a job that it ends before `batchai run` says why, and clocks differ.
constexpr std::chrono::minutes slack{5};

// All runs of one job.
struct JobOfRuns {
    std::string user;
    std::set<std::string> nodes;
    std::optional<base::Time> first;
    std::optional<base::Time> last;  // none: it has not ended
    bool runs = false;
    std::vector<record::NodeFault> faults;

    [[nodiscard]] bool had(const record::NodeFault& fault) const {
        if (!nodes.contains(fault.node) || !first || fault.time < *first - slack) return false;
        return runs || (last && fault.time <= *last + slack);
    }
};

void add_run(JobOfRuns& job, const slurm::CommentedRun& run) {
    job.user = run.user;
    if (const auto nodes = slurm::expand_hostlist(run.nodes))
        job.nodes.insert(nodes->begin(), nodes->end());
    if (run.start) job.first = std::min(job.first.value_or(*run.start), *run.start);
    if (run.end) job.last = std::max(job.last.value_or(*run.end), *run.end);
    job.runs = job.runs || (run.start && !run.end);
    auto faults = record::node_faults_in_comment(run.comment);
    std::move(faults.begin(), faults.end(), std::back_inserter(job.faults));
}

std::string_view words_of(NodeFaultKind kind) {
    switch (kind) {
        case NodeFaultKind::lost:
            return "was lost";
        case NodeFaultKind::health:
            return "failed a check of the site";
        case NodeFaultKind::gpus:
            return "its GPUs could not be used";
        case NodeFaultKind::links:
            return "its links were bad";
        case NodeFaultKind::start:
            return "tasks did not start";
        case NodeFaultKind::mount:
            return "a volume could not be mounted";
        case NodeFaultKind::hang:
            return "a rank held up the others";
        case NodeFaultKind::slow:
            break;
    }
    return "a rank was slow";
}

// The program, the image and the volumes of a job are its user's. A GPU is checked in the image,
// too.
bool may_be_of_user(NodeFaultKind kind) {
    return kind == NodeFaultKind::gpus || kind == NodeFaultKind::start ||
           kind == NodeFaultKind::mount || kind == NodeFaultKind::hang ||
           kind == NodeFaultKind::slow;
}

std::string several(std::size_t count, std::string_view word) {
    return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

NodeJudgement judged(const std::string& name, const BlamedNode& node, int days) {
    std::set<std::string> all;
    std::set<std::string> of_site;
    std::vector<std::string> reasons;
    for (const auto& [kind, jobs] : node.jobs) {
        all.insert(jobs.begin(), jobs.end());
        if (!may_be_of_user(kind)) of_site.insert(jobs.begin(), jobs.end());
        reasons.push_back(fmt::format("{} ({})", words_of(kind), several(jobs.size(), "job")));
    }
    const bool one_user = node.users.size() == 1;
    // Two users may have made the same mistake.
    constexpr std::size_t many_users = 3;
    const bool of_many = node.users.size() >= (of_site.empty() ? many_users : 2);
    const std::string users = all.size() > 1 && one_user ? ", all of one user,"
                              : one_user                 ? std::string(" of one user")
                                         : fmt::format(" of {} users", node.users.size());
    NodeJudgement out{
        .node = name,
        .severity = of_site.size() > 1 || of_many ? Severity::warning : Severity::info,
        .found =
            fmt::format("{}{} {} found it bad in the last {}: {}; the last one was job {}, at {}",
                        several(all.size(), "job"), users, all.size() == 1 ? "has" : "have",
                        several(static_cast<std::size_t>(days), "day"), fmt::join(reasons, ", "),
                        node.last_job, base::to_iso8601_seconds(node.last)),
        .remedy = {}};
    if (out.severity == Severity::warning) {
        // The report shows nodes of the same words together.
        out.remedy =
            "look for the cause on the node, and drain it until it is mended (scontrol update "
            "NodeName=… State=DRAIN Reason=…)";
        if (one_user)
            out.remedy +=
                "; what a job says of a node is under its user's control, so ask that user";
    }
    return out;
}

}  // namespace

std::map<std::string, BlamedNode> blamed_nodes(const std::vector<slurm::CommentedRun>& runs,
                                               const std::set<std::string>& known) {
    std::map<std::string, JobOfRuns> jobs;
    for (const slurm::CommentedRun& run : runs)
        add_run(jobs[run.id], run);
    std::map<std::string, BlamedNode> out;
    for (const auto& [id, job] : jobs) {
        for (const record::NodeFault& fault : job.faults) {
            if (!known.contains(fault.node) || !job.had(fault)) continue;
            BlamedNode& node = out[fault.node];
            node.jobs[fault.kind].insert(id);
            node.users.insert(job.user);
            if (fault.time < node.last) continue;
            node.last = fault.time;
            node.last_job = id;
        }
    }
    return out;
}

base::Result<NodeFaults> look_at_node_faults(const slurm::Client& client,
                                             const std::vector<slurm::NodeStatus>& nodes) {
    std::set<std::string> known;
    for (const slurm::NodeStatus& node : nodes)
        known.insert(node.name);
    const auto deadline = std::chrono::steady_clock::now() + longest_question;
    const base::Time now = base::now();
    NodeFaults out;
    std::vector<slurm::CommentedRun> runs;
    while (out.days < days_of_node_faults) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            deadline - std::chrono::steady_clock::now());
        auto of_day = client.commented_runs(record::node_faults_mark, now - (out.days + 1) * day,
                                            now - out.days * day,
                                            std::max(left, std::chrono::milliseconds(1)));
        if (!of_day && out.days == 0) return tl::unexpected(of_day.error());
        out.is_complete = of_day.has_value();
        if (!of_day) break;
        std::move(of_day->begin(), of_day->end(), std::back_inserter(runs));
        ++out.days;
    }
    out.nodes = blamed_nodes(runs, known);
    return out;
}

Judgement judge_node_faults(const NodeFaults& faults) {
    Judgement out;
    for (const auto& [name, node] : faults.nodes)
        out.nodes.push_back(judged(name, node, faults.days));
    out.severity = faults.is_complete ? Severity::ok : Severity::info;
    out.found = fmt::format(
        "of the jobs that sacct shows this user, none has found a node bad in "
        "the last {}{}",
        several(static_cast<std::size_t>(faults.days), "day"),
        faults.is_complete ? "" : "; sacct is too slow to look further back");
    return out;
}

}  // namespace batchai::admin
