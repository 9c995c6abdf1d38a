// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/tensorflow/wiring.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/network.hpp"
#include "base/text.hpp"

namespace batchai::run {

namespace {

using plan::TensorFlowMaster;

constexpr std::string_view worker_word = "worker";
constexpr std::string_view server_word = "ps";
constexpr int elsewhere_exit_code = 98;

// Slurm's TaskProlog may print lines of its own before those of a task.
constexpr std::string_view first_word = "batchai-port ";
// More than a role, two numbers and the name of a node.
constexpr std::size_t longest_port_line = 1024;

}  // namespace

std::string line_of_port(bool of_worker, int task, const TaskPort& port) {
    return fmt::format("{}{} {} {} {}\n", first_word, of_worker ? worker_word : server_word, task,
                       port.node, port.port);
}

void PortLines::add(std::string_view printed) {
    rest_ += printed;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = rest_.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
        const std::string_view line = std::string_view(rest_).substr(begin, end - begin + 1);
        if (!line.starts_with(first_word)) continue;
        lines_ += line;
        ++count_;
    }
    rest_.erase(0, begin);
    // A longer line is not one of ours. The byte that is kept says that the line has begun.
    if (rest_.size() > longest_port_line) rest_.resize(1);
}

base::Result<TaskPorts> read_task_ports(std::string_view lines,
                                        const plan::TensorFlowCluster& cluster) {
    TaskPorts ports;
    ports.workers.resize(static_cast<std::size_t>(cluster.workers));
    ports.parameter_servers.resize(static_cast<std::size_t>(cluster.parameter_servers));
    for (const std::string_view line : base::split(lines, '\n')) {
        if (!line.starts_with(first_word)) continue;
        const auto words = base::split(line.substr(first_word.size()), ' ');
        const auto task = words.size() == 4 ? base::number_in<std::size_t>(words[1]) : std::nullopt;
        const auto port = words.size() == 4 ? base::number_in<int>(words[3]) : std::nullopt;
        auto& tasks = words[0] == worker_word ? ports.workers : ports.parameter_servers;
        if (!task || !port || *task >= tasks.size())
            return base::fail(fmt::format("the step that holds the ports says \"{}\"", line));
        tasks[*task] = {.node = std::string(words[2]), .port = *port};
    }
    const auto is_missing = [](const TaskPort& port) { return port.port == 0; };
    for (const auto& [word, tasks] : {std::pair{worker_word, &ports.workers},
                                      std::pair{server_word, &ports.parameter_servers}}) {
        const auto missing = std::find_if(tasks->begin(), tasks->end(), is_missing);
        if (missing != tasks->end())
            return base::fail(
                fmt::format("no port is held for {} {}", word, missing - tasks->begin()));
    }
    return ports;
}

TensorFlowTasks tensorflow_tasks(const plan::TensorFlowCluster& cluster, TaskPorts ports,
                                 const NodeAddresses& at) {
    const auto hosts_of = [&](const std::vector<TaskPort>& tasks) {
        std::vector<std::string> hosts;
        for (const TaskPort& task : tasks) {
            const auto node = std::find(at.nodes.begin(), at.nodes.end(), task.node);
            const std::string& address =
                node == at.nodes.end()
                    ? task.node
                    : at.addresses.at(static_cast<std::size_t>(node - at.nodes.begin()));
            hosts.push_back(base::host_and_port(address, task.port));
        }
        return hosts;
    };
    TensorFlowTasks tasks{.cluster = cluster,
                          .ports = {},
                          .workers = hosts_of(ports.workers),
                          .parameter_servers = hosts_of(ports.parameter_servers)};
    tasks.ports = std::move(ports);
    return tasks;
}

base::Environment host_variables(const TensorFlowTasks& tasks) {
    return {fmt::format("AZ_BATCHAI_WORKER_HOSTS={}", fmt::join(tasks.workers, ",")),
            fmt::format("AZ_BATCHAI_PS_HOSTS={}", fmt::join(tasks.parameter_servers, ","))};
}

namespace {

// Addresses and names of hosts have no character that JSON would escape.
std::string member(std::string_view role, const std::vector<std::string>& hosts) {
    return fmt::format(R"("{}":["{}"])", role, fmt::join(hosts, R"(",")"));
}

std::string cluster_json(const TensorFlowTasks& tasks) {
    std::vector<std::string> members;
    std::vector<std::string> workers = tasks.workers;
    if (tasks.cluster.master != TensorFlowMaster::worker) {
        members.push_back(
            member(tasks.cluster.master == TensorFlowMaster::chief ? "chief" : "master",
                   {workers.front()}));
        workers.erase(workers.begin());
    }
    if (!workers.empty()) members.push_back(member(worker_word, workers));
    if (!tasks.parameter_servers.empty())
        members.push_back(member(server_word, tasks.parameter_servers));
    return fmt::format("{{{}}}", fmt::join(members, ","));
}

// Sets TF_CONFIG from the shell's variables "batchai_role" and "batchai_index".
std::string export_config(const plan::Plan& plan, const TensorFlowTasks& tasks) {
    if (plan::last_value(plan.environment, "TF_CONFIG") != nullptr) return {};
    const std::string begin =
        fmt::format(R"({{"cluster":{},"task":{{"type":")", cluster_json(tasks));
    return fmt::format(
        R"(export TF_CONFIG={}"$batchai_role"'","index":'"$batchai_index"'}},"environment":"cloud"}}'
)",
        base::single_quoted(begin));
}

// Slurm has laid out the step that holds the ports in the same way, from the same numbers. If it
// ever did otherwise, tasks would find each other in wrong places.
std::string check_node(std::string_view what, const std::vector<TaskPort>& ports) {
    std::vector<std::string> places;
    places.reserve(ports.size());
    for (std::size_t task = 0; task < ports.size(); ++task)
        places.push_back(fmt::format("'{} {}'", task, ports[task].node));
    return fmt::format(
        R"(case "$SLURM_PROCID $SLURMD_NODENAME" in
{}) ;;
*) echo "batchai: error: Slurm has started {} $SLURM_PROCID on $SLURMD_NODENAME, but its port is held on another node" >&2
exit {} ;;
esac
)",
        fmt::join(places, "|"), what, elsewhere_exit_code);
}

}  // namespace

std::string worker_command(const plan::Plan& plan, const TensorFlowTasks& tasks,
                           const std::string& command, const std::string& master_end) {
    std::string script = check_node("worker", tasks.ports.workers);
    script += "batchai_role=worker batchai_index=$SLURM_PROCID\n";
    if (tasks.cluster.master != TensorFlowMaster::worker)
        script += fmt::format(
            R"(if [ "$batchai_index" = 0 ]; then batchai_role={}; else batchai_index=$((batchai_index - 1)); fi
)",
            tasks.cluster.master == TensorFlowMaster::chief ? "chief" : "master");
    script += export_config(plan, tasks);
    if (master_end.empty()) return script + command;
    // The shell stays to report the end, so it must outlive the signals that the program handles.
    // The empty line is for a command that ends in a backslash.
    return script + fmt::format(R"(batchai_work() {{
{}

}}
if [ "$SLURM_PROCID" != 0 ]; then batchai_work; exit; fi
trap : HUP INT TERM USR1 USR2
(batchai_work)
batchai_code=$?
if [ $batchai_code = 0 ] && ! echo ended > {}; then
echo "batchai: error: the job cannot be told that its master has ended" >&2
exit 1
fi
exit $batchai_code)",
                                command, base::single_quoted(master_end));
}

std::string parameter_server_command(const plan::Plan& plan, const TensorFlowTasks& tasks,
                                     const std::string& command) {
    std::string script = check_node("parameter server", tasks.ports.parameter_servers);
    script +=
        "batchai_role=ps batchai_index=$SLURM_PROCID\nexport AZ_BATCHAI_TASK_INDEX=$SLURM_PROCID\n";
    // TensorFlow would take all memory of the GPUs, which belong to the workers.
    if (plan::last_value(plan.environment, "CUDA_VISIBLE_DEVICES") == nullptr)
        script += "export CUDA_VISIBLE_DEVICES=-1\n";
    // Slurm sends a signal that the user has asked for (--signal), or a warning that the job will
    // be preempted, to all steps; it is meant for the workers. When these have ended, so do the
    // parameter servers: their srun has Slurm kill them.
    script += "trap '' HUP TERM USR1 USR2\n";
    return script + export_config(plan, tasks) + command;
}

}  // namespace batchai::run
