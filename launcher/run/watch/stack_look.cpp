// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/watch/stack_look.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "base/file.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// The nodes take about five seconds at most. Slurm may take some to start the step, and a node that
// is dead does not start it at all.
constexpr std::chrono::seconds longest_look{15};

}  // namespace

base::Result<StackLook> StackLook::start(const std::string& job_id, std::vector<std::string> nodes,
                                         visit::StacksWanted wanted,
                                         base::Environment environment) {
    base::Arguments command{program_on_nodes("batchai-node"), "stacks", "--job-id=" + job_id};
    if (wanted.all_threads) command.emplace_back("--threads");
    if (wanted.native) command.emplace_back("--native");
    auto step = TRY(PipedStep::start(piped_arguments({.job_id = job_id,
                                                      .nodes = nodes,
                                                      .name = "batchai-stacks",
                                                      .command = std::move(command)}),
                                     std::move(environment)));
    step.kill_at_end();
    step.close_input();
    return StackLook(std::move(step), std::move(nodes));
}

StackLook::StackLook(PipedStep step, std::vector<std::string> nodes)
    : step_(std::move(step)), nodes_(std::move(nodes)), deadline_(Clock::now() + longest_look) {}

bool StackLook::poll(std::chrono::milliseconds longest, int wake) {
    const auto until = std::min(deadline_, Clock::now() + longest);
    while (reader_.complete() < nodes_.size()) {
        const auto now = Clock::now();
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
        std::array<pollfd, 3> events{
            {{wake, POLLIN, 0}, {step_.output(), POLLIN, 0}, {step_.messages(), POLLIN, 0}}};
        const int count =
            ::poll(events.data(), events.size(), static_cast<int>(std::max<long>(left, 0)));
        if (count <= 0 || events[0].revents != 0) {
            if (now >= until || events[0].revents != 0) return now >= deadline_;
            continue;
        }
        step_.read_messages();
        if (events[1].revents == 0) continue;
        std::string bytes;
        const bool goes_on = base::drain(step_.output(), bytes);
        reader_.feed(bytes);
        if (!goes_on) return true;
    }
    return true;
}

base::Result<StacksFound> StackLook::found() {
    step_.read_messages();
    StacksFound found;
    for (const std::string& node : nodes_) {
        auto answer = reader_.answer_of(node);
        if (answer)
            found.nodes.push_back(std::move(*answer));
        else
            found.missing.push_back({node, answer.error().what});
    }
    if (!found.nodes.empty()) return found;
    std::string said = step_.said();
    return base::fail(said.empty()
                          ? fmt::format("no node has answered within {} s", longest_look.count())
                          : std::move(said),
                      {}, "the nodes need this release of batchai, and some free memory");
}

}  // namespace batchai::run
