// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/tensorflow/held_ports.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>

#include "base/network.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "run/blame/culprit.hpp"

namespace batchai::run {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int look_milliseconds = 100;

base::Error no_ports(const std::string& why, const PortsRequest& request) {
    const std::string said =
        first_error_line(base::read_file(request.messages_path).value_or(std::string()));
    return {
        .what = fmt::format("no ports can be held for the tasks: {}", said.empty() ? why : said),
        .where = {},
        .hint = {}};
}

}  // namespace

base::Result<PortsAnswer> hold_ports(const PortsRequest& request,
                                     const plan::TensorFlowCluster& cluster,
                                     const NodeAddresses& at) {
    // The file may be left from an earlier run in the same allocation.
    std::error_code ignored;
    std::filesystem::remove(request.messages_path, ignored);
    base::Pipe pipe = TRY(base::make_pipe());
    BackgroundStep step = TRY(BackgroundStep::start(
        request.arguments, request.environment,
        {.messages_path = request.messages_path, .output = pipe.write_end.get()}));
    pipe.write_end.reset(-1);
    const std::size_t wanted = static_cast<std::size_t>(cluster.workers) +
                               static_cast<std::size_t>(cluster.parameter_servers);
    const auto deadline = Clock::now() + request.deadline;
    PortLines lines;
    while (lines.count() < wanted) {
        if (const auto signal = request.stopped_by())
            return PortsAnswer{.ports = std::nullopt, .stopped_by = signal};
        if (Clock::now() > deadline)
            return tl::unexpected(no_ports(
                fmt::format("they are not there after {} s", request.deadline.count()), request));
        pollfd waiting{pipe.read_end.get(), POLLIN, 0};
        if (::poll(&waiting, 1, look_milliseconds) <= 0) continue;
        std::string printed;
        const bool more = base::drain(pipe.read_end.get(), printed);
        lines.add(printed);
        if (!more && lines.count() < wanted)
            return tl::unexpected(no_ports("the step that holds them has ended", request));
    }
    TaskPorts ports = TRY(read_task_ports(lines.lines(), cluster));
    return PortsAnswer{.ports = HeldPorts{.tasks = tensorflow_tasks(cluster, std::move(ports), at),
                                          .printed = std::move(pipe.read_end),
                                          .holder = std::move(step)},
                       .stopped_by = std::nullopt};
}

int hold_ports_here(int parameter_servers) {
    const base::HeldSignals signals{SIGTERM, SIGINT, end_of_background_step};
    const auto number_of = [](const char* name) {
        return base::number_in<int>(base::variable(name).value_or(std::string()));
    };
    const auto task = number_of("SLURM_PROCID");
    const auto local = number_of("SLURM_LOCALID");
    const auto node = number_of("SLURM_NODEID");
    const auto name = base::variable("SLURMD_NODENAME");
    if (!task || !local || !node || !name) {
        std::fputs("batchai: error: hold-ports is not a task of Slurm\n", stderr);
        return 1;
    }
    std::vector<base::ReservedPort> held;
    const auto hold = [&](bool of_worker, int number) {
        auto port = base::ReservedPort::reserve();
        if (!port) return false;
        std::fputs(line_of_port(of_worker, number, {.node = *name, .port = port->number()}).c_str(),
                   stdout);
        held.push_back(std::move(*port));
        return true;
    };
    // What Slurm's TaskProlog printed may have no end of a line.
    std::fputc('\n', stdout);
    if (!hold(true, *task) || (*local == 0 && *node < parameter_servers && !hold(false, *node))) {
        std::fprintf(stderr, "batchai: error: node %s has no free port\n", name->c_str());
        return 1;
    }
    std::fflush(stdout);
    // Nobody but the job's end stops this program, and Slurm ends it with the job.
    while (!signals.next_within(std::chrono::hours(1))) {
    }
    return 0;
}

}  // namespace batchai::run
