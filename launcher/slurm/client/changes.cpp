// SPDX-License-Identifier: GPL-2.0-or-later
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "slurm/client.hpp"
#include "slurm/messages.hpp"

// How jobs that Slurm has are changed.
namespace batchai::slurm {

namespace {

using base::Result;
using namespace std::string_view_literals;

// What Slurm says of a job that has ended since the caller looked, or that it has forgotten.
constexpr std::array ended{"Invalid job id"sv, "already completing or completed"sv};
constexpr std::array not_waiting{"Invalid job id"sv, "already completing"sv, "already finished"sv,
                                 "no longer pending"sv};
// What Slurm says if it shall queue a job again that is in the queue.
constexpr std::array queued{"Job is pending execution"sv};

std::string without_nodes(const std::string& hostlist) {
    return "ExcNodeList=" + hostlist;
}

}  // namespace

Result<void> Client::cancel(const JobId& job) const {
    return tell({"scancel", job.text()}, ended);
}

Result<void> Client::cancel_queued(const JobId& job) const {
    return tell({"scancel", "--state=PENDING", job.text()}, ended);
}

Result<void> Client::cancel_tasks(const JobId& array, const std::vector<int>& tasks,
                                  bool only_queued) const {
    if (tasks.empty()) return {};
    base::Arguments arguments{"scancel"};
    if (only_queued) arguments.emplace_back("--state=PENDING");
    arguments.push_back(fmt::format("{}_[{}]", array.without_task(), base::number_ranges(tasks)));
    return tell(arguments, ended);
}

Result<void> Client::requeue(const JobId& job) const {
    return tell({"scontrol", "requeue", job.text()}, queued);
}

Result<void> Client::requeue_without(const JobId& job, const std::string& hostlist) const {
    // Without arguments, it reads its commands.
    const std::string commands =
        fmt::format("requeue {0}\nupdate JobId={0} {1}\n", job.text(), without_nodes(hostlist));
    const auto completed = TRY(ask({"scontrol"}, commands));
    if (completed.exit_code != 0) return refused("scontrol", completed);
    return {};
}

Result<void> Client::signal_step(const std::string& step_id, int signal) const {
    return tell({"scancel", fmt::format("--signal={}", signal), step_id});
}

Result<void> Client::change(const JobId& job, const std::string& setting, Messages harmless) const {
    return tell({"scontrol", "update", "JobId=" + job.text(), setting}, harmless);
}

Result<void> Client::keep_nodes(const JobId& job, const std::vector<std::string>& nodes) const {
    return change(job, fmt::format("NodeList={}", fmt::join(nodes, ",")));
}

Result<void> Client::set_comment(const JobId& job, const std::string& comment) const {
    return change(job, "Comment=" + comment);
}

Result<void> Client::edit_comment(
    const JobId& job, const std::function<std::string(std::string_view)>& edited) const {
    return set_comment(job, edited(TRY(comment(job))));
}

Result<void> Client::exclude_nodes(const JobId& job, const std::string& hostlist) const {
    return change(job, without_nodes(hostlist));
}

Result<void> Client::hold(const JobId& job) const {
    return tell({"scontrol", "uhold", job.text()}, not_waiting);
}

Result<void> Client::release(const JobId& job) const {
    return tell({"scontrol", "release", job.text()}, not_waiting);
}

Result<void> Client::forbid_requeue(const JobId& job) const {
    return change(job, "Requeue=0", not_waiting);
}

Result<void> Client::set_priority(const JobId& job, const std::string& priority) const {
    return change(job, "Priority=" + priority, not_waiting);
}

}  // namespace batchai::slurm
