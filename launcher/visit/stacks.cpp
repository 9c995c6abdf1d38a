// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/stacks.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::visit {

namespace {

using Clock = std::chrono::steady_clock;

// The nodes take about two seconds at most. Slurm may take some to start the step, and a node that
// is dead does not start it at all.
constexpr std::chrono::seconds longest{15};

// Returns false if the user ends the command.
bool read_answers(PipedStep& step, std::size_t nodes, const base::HeldSignals& signals,
                  AnswerReader& reader) {
    const auto deadline = Clock::now() + longest;
    while (reader.complete() < nodes) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) return true;
        std::array<pollfd, 3> events{{{signals.descriptor(), POLLIN, 0},
                                      {step.output(), POLLIN, 0},
                                      {step.messages(), POLLIN, 0}}};
        if (::poll(events.data(), events.size(), static_cast<int>(left)) <= 0) continue;
        if (signals.next()) return false;
        step.read_messages();
        if (events[1].revents == 0) continue;
        std::string bytes;
        const bool goes_on = base::drain(step.output(), bytes);
        reader.feed(bytes);
        if (!goes_on) return true;
    }
    return true;
}

}  // namespace

base::Result<std::optional<StacksFound>> ask_for_stacks(const RunningJob& running,
                                                        const std::vector<std::string>& nodes,
                                                        bool all_threads) {
    const base::HeldSignals signals{SIGINT, SIGTERM, SIGHUP};
    base::Arguments command{run::program_on_nodes("batchai-node"), "stacks",
                            "--job-id=" + running.slurm_id};
    if (all_threads) command.emplace_back("--threads");
    auto step = TRY(PipedStep::start(run::piped_arguments({.job_id = running.slurm_id,
                                                           .nodes = nodes,
                                                           .name = "batchai-stacks",
                                                           .command = std::move(command)}),
                                     bare_environment()));
    step.kill_at_end();
    step.close_input();
    AnswerReader reader;
    if (!read_answers(step, nodes.size(), signals, reader)) return std::nullopt;
    step.read_messages();
    StacksFound found;
    for (const std::string& node : nodes) {
        auto answer = reader.answer_of(node);
        if (answer)
            found.nodes.push_back(std::move(*answer));
        else
            found.missing.push_back({node, answer.error().what});
    }
    if (found.nodes.empty())
        return base::fail(
            step.said().empty() ? fmt::format("no node has answered within {} s", longest.count())
                                : step.said(),
            running.job.key.job, "the nodes need this release of batchai, and some free memory");
    return found;
}

}  // namespace batchai::visit
