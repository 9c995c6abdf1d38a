// SPDX-License-Identifier: GPL-2.0-or-later
// What the tasks of a TensorFlow job are told, the ports that are held for them, and the master's
// end. Real steps and parameter servers are in tests/integration/tensorflow.bats.
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "attempt_of_fakes.hpp"
#include "base/file.hpp"
#include "base/process.hpp"
#include "run/tensorflow/held_ports.hpp"
#include "run/tensorflow/tensorflow_job.hpp"
#include "run/tensorflow/wiring.hpp"

namespace batchai::run {

namespace {

using plan::TensorFlowMaster;
using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<std::string> nodes{"n1", "n2"};
const std::vector<std::string> addresses{"10.0.0.4", "fd00::5"};

// Three workers on two nodes, and a parameter server.
TensorFlowTasks some_tasks(TensorFlowMaster master, int servers = 1) {
    TaskPorts ports{.workers = {{"n1", 1001}, {"n1", 1002}, {"n2", 1003}},
                    .parameter_servers = {{"n1", 2001}}};
    ports.parameter_servers.resize(static_cast<std::size_t>(servers));
    return tensorflow_tasks({.workers = 3, .parameter_servers = servers, .master = master},
                            std::move(ports), {nodes, addresses});
}

// What a shell does with the command of a task.
base::Completed run_task(const std::string& shell, const std::string& command, int task,
                         const std::string& node) {
    base::Environment environment = base::environment_without({"TF_CONFIG="});
    environment.push_back(fmt::format("SLURM_PROCID={}", task));
    environment.push_back("SLURMD_NODENAME=" + node);
    auto done = base::run({shell, "-c", command}, {.environment = environment});
    EXPECT_TRUE(done);
    return done ? *done : base::Completed{};
}

constexpr const char* print_config = R"(exec printf '%s' "$TF_CONFIG")";

std::string config_of(TensorFlowMaster master, int task, const std::string& node,
                      const std::string& shell = "bash") {
    return run_task(shell, worker_command({}, some_tasks(master), print_config, ""), task, node)
        .standard_output;
}

}  // namespace

TEST(TensorFlowWiring, ReadsThePortsOfAllTasksInAnyOrder) {
    const plan::TensorFlowCluster cluster{.workers = 2, .parameter_servers = 1};
    const std::string server = line_of_port(false, 0, {"n1", 9});
    const std::string workers = line_of_port(true, 1, {"n2", 8}) + line_of_port(true, 0, {"n1", 7});
    const auto ports = read_task_ports(server + workers, cluster);
    ASSERT_TRUE(ports) << ports.error().text();
    EXPECT_EQ(*ports, (TaskPorts{{{"n1", 7}, {"n2", 8}}, {{"n1", 9}}}));
    EXPECT_EQ(read_task_ports(workers, cluster).error().what, "no port is held for ps 0");
    EXPECT_FALSE(read_task_ports(workers + line_of_port(false, 1, {"n2", 9}), cluster));
    EXPECT_FALSE(read_task_ports(server + workers + "batchai-port hello\n", cluster));
}

// Breaks when a TaskProlog that prints keeps jobs from starting.
TEST(TensorFlowWiring, TakesOnlyItsOwnLinesForPorts) {
    const std::string printed = "hello\n" + line_of_port(true, 0, {"n1", 7}) +
                                std::string(5000, '.') + "\nand more\n\n" +
                                line_of_port(true, 1, {"n2", 8}) + "unfinished";
    for (const std::size_t at_once : {printed.size(), std::size_t{1}, std::size_t{7}}) {
        PortLines lines;
        for (std::size_t at = 0; at < printed.size(); at += at_once)
            lines.add(std::string_view(printed).substr(at, at_once));
        EXPECT_EQ(lines.count(), 2U);
        const auto ports = read_task_ports(lines.lines(), {.workers = 2});
        ASSERT_TRUE(ports) << ports.error().text();
        EXPECT_EQ(ports->workers, (std::vector<TaskPort>{{"n1", 7}, {"n2", 8}}));
    }
}

// Breaks when the tasks that hold the ports are elsewhere than the workers.
TEST(Layout, FollowsTheUsersOwnDistribution) {
    plan::Plan plan;
    plan.allocation.nodes = 2;
    plan.allocation.processes = 4;
    plan.allocation.processes_per_node = 2;
    plan.allocation.cpus_per_process = 1;
    const auto of_user = [](const std::string& name) {
        return name == "SLURM_DISTRIBUTION" ? std::optional<std::string>("cyclic") : std::nullopt;
    };
    const auto of_nobody = [](const std::string&) { return std::optional<std::string>(); };
    EXPECT_THAT(layout_variables(plan, of_user), testing::IsEmpty());
    plan.allocation.options.push_back({"gres", "gpu:2"});
    EXPECT_THAT(layout_variables(plan, of_nobody), ElementsAre("SLURM_DISTRIBUTION=block:block"));
    EXPECT_THAT(layout_variables(plan, of_user), ElementsAre("SLURM_DISTRIBUTION=cyclic"));
}

TEST(TensorFlowWiring, NamesTheHostsAsBatchAiDid) {
    EXPECT_THAT(host_variables(some_tasks(TensorFlowMaster::chief)),
                ElementsAre("AZ_BATCHAI_WORKER_HOSTS=10.0.0.4:1001,10.0.0.4:1002,[fd00::5]:1003",
                            "AZ_BATCHAI_PS_HOSTS=10.0.0.4:2001"));
    EXPECT_THAT(host_variables(some_tasks(TensorFlowMaster::chief, 0)),
                testing::Contains("AZ_BATCHAI_PS_HOSTS="));
}

TEST(TensorFlowWiring, TellsEachTaskWhatItIs) {
    constexpr const char* all =
        R"({"cluster":{"worker":["10.0.0.4:1001","10.0.0.4:1002","[fd00::5]:1003"],"ps":["10.0.0.4:2001"]},)";
    for (const char* shell : {"bash", "sh"}) {
        EXPECT_EQ(
            config_of(TensorFlowMaster::worker, 0, "n1", shell),
            std::string(all) + R"("task":{"type":"worker","index":0},"environment":"cloud"})");
    }
    EXPECT_EQ(config_of(TensorFlowMaster::worker, 2, "n2"),
              std::string(all) + R"("task":{"type":"worker","index":2},"environment":"cloud"})");
    const std::string one =
        R"({"cluster":{"chief":["10.0.0.4:1001"],"worker":["10.0.0.4:1002","[fd00::5]:1003"],"ps":["10.0.0.4:2001"]},)";
    EXPECT_EQ(config_of(TensorFlowMaster::chief, 0, "n1"),
              one + R"("task":{"type":"chief","index":0},"environment":"cloud"})");
    EXPECT_EQ(config_of(TensorFlowMaster::chief, 2, "n2"),
              one + R"("task":{"type":"worker","index":1},"environment":"cloud"})");
    EXPECT_THAT(config_of(TensorFlowMaster::master, 0, "n1"), HasSubstr(R"("type":"master")"));
    EXPECT_EQ(
        run_task(
            "sh",
            parameter_server_command(
                {}, some_tasks(TensorFlowMaster::chief),
                R"(exec printf '%s' "$TF_CONFIG $AZ_BATCHAI_TASK_INDEX $CUDA_VISIBLE_DEVICES")"),
            0, "n1")
            .standard_output,
        one + R"("task":{"type":"ps","index":0},"environment":"cloud"} 0 -1)");
}

TEST(TensorFlowWiring, LeavesTheUsersOwnVariablesAlone) {
    plan::Plan plan;
    plan.environment = {{"TF_CONFIG", "mine"}, {"CUDA_VISIBLE_DEVICES", "3"}};
    const auto tasks = some_tasks(TensorFlowMaster::worker);
    EXPECT_EQ(
        run_task("sh", worker_command(plan, tasks, print_config, ""), 0, "n1").standard_output, "");
    EXPECT_EQ(run_task("sh",
                       parameter_server_command(
                           plan, tasks, R"(exec printf '%s' "$TF_CONFIG${CUDA_VISIBLE_DEVICES-}")"),
                       0, "n1")
                  .standard_output,
              base::variable("CUDA_VISIBLE_DEVICES").value_or(""));
}

TEST(TensorFlowWiring, RefusesANodeOtherThanThatOfThePort) {
    const auto tasks = some_tasks(TensorFlowMaster::worker);
    for (const std::string& command : {worker_command({}, tasks, print_config, ""),
                                       parameter_server_command({}, tasks, print_config)}) {
        const auto done = run_task("sh", command, 0, "n2");
        EXPECT_EQ(done.exit_code, 98);
        EXPECT_EQ(done.standard_output, "");
        EXPECT_THAT(done.standard_error, HasSubstr("on n2, but its port is held on another node"));
    }
}

// A shell script stands in for srun.
class PortsStep : public ScratchTest {
  protected:
    [[nodiscard]] PortsRequest request(const std::string& script) const {
        return {.arguments = {"sh", "-c", script},
                .environment = base::environment_without({}),
                .messages_path = path("messages")};
    }
    [[nodiscard]] static base::Result<PortsAnswer> answer(const PortsRequest& request) {
        return hold_ports(request, {.workers = 2}, {nodes, addresses});
    }
};

TEST_F(PortsStep, HoldsThePortsAsLongAsTheyAreNeeded) {
    auto held =
        answer(request("trap 'echo ended >&2; exit' USR1; echo hello; "
                       "echo batchai-port worker 1 n2 8; echo batchai-port worker 0 n1 7; while :; "
                       "do sleep 0.05; done"));
    ASSERT_TRUE(held) << held.error().text();
    ASSERT_TRUE(held->ports);
    EXPECT_THAT(held->ports->tasks.workers, ElementsAre("10.0.0.4:7", "[fd00::5]:8"));
    EXPECT_TRUE(held->ports->holder.runs());
    held->ports.reset();
    EXPECT_EQ(text_of("messages"), "ended\n");
}

TEST_F(PortsStep, SaysWhyThereAreNone) {
    const auto refused =
        answer(request("echo batchai-port worker 0 n1 7; echo 'srun: error: no node' >&2"));
    EXPECT_EQ(refused.error().what, "no ports can be held for the tasks: srun: error: no node");
    // What srun has said in an earlier run is not repeated.
    PortsRequest late = request("sleep 60");
    late.deadline = std::chrono::seconds(0);
    EXPECT_EQ(answer(late).error().what,
              "no ports can be held for the tasks: they are not there after 0 s");
    EXPECT_FALSE(answer(request("echo something else; echo and more")));
}

TEST_F(PortsStep, IsGivenUpWhenTheJobEnds) {
    PortsRequest stopped = request("sleep 60");
    stopped.stopped_by = [] { return std::optional(SIGTERM); };
    const auto given_up = answer(stopped);
    ASSERT_TRUE(given_up);
    EXPECT_FALSE(given_up->ports);
    EXPECT_EQ(given_up->stopped_by, SIGTERM);
}

// Slurm sends all steps the signals that warn the workers of the job's end.
TEST(TensorFlowWiring, ParameterServersOutliveWarnings) {
    EXPECT_EQ(
        run_task("sh",
                 parameter_server_command(
                     {}, some_tasks(TensorFlowMaster::worker),
                     "for signal in HUP TERM USR1 USR2; do kill -$signal $$; done; echo alive"),
                 0, "n1")
            .standard_output,
        "alive\n");
}

class MasterEnd : public ScratchTest {};

TEST_F(MasterEnd, IsToldOnceWorkerZeroHasEndedWell) {
    const auto tasks = some_tasks(TensorFlowMaster::chief);
    const std::string file = path("end");
    const auto after = [&](const std::string& work, int task, const std::string& node) {
        std::filesystem::remove(file);
        return run_task("sh", worker_command({}, tasks, work, file), task, node).exit_code;
    };
    EXPECT_EQ(after("exec true # well", 0, "n1"), 0);
    EXPECT_EQ(text_of("end"), "ended\n");
    EXPECT_EQ(after("exec true \\", 0, "n1"), 0);
    EXPECT_EQ(text_of("end"), "ended\n");
    EXPECT_EQ(after("exec sh -c 'exit 3'", 0, "n1"), 3);
    EXPECT_FALSE(std::filesystem::exists(file));
    EXPECT_EQ(after("true", 1, "n1"), 0);
    EXPECT_FALSE(std::filesystem::exists(file)) << "it is not the master";
    // Nothing else would end the other workers.
    EXPECT_EQ(
        run_task("sh", worker_command({}, tasks, "true", path("missing/end")), 0, "n1").exit_code,
        1);
    // The program handles a signal that all processes of the task get.
    EXPECT_EQ(after("trap 'exit 0' TERM; kill -TERM $$; kill -TERM $(exec sh -c 'echo $PPID'); "
                    "sleep 9; exit 4",
                    0, "n1"),
              0);
    EXPECT_EQ(text_of("end"), "ended\n");
}

// What a worker does after the master's end does not count, even if it fails before anyone has seen
// that end.
TEST_F(PhasesTest, AMasterThatHasEndedWellDecides) {
    LogDirectory logs(path("logs"));
    ExecutionLog log(logs, path("job/node"), granted_.nodes);
    Context context{.plan = plan_,
                    .options = options_,
                    .granted = granted_,
                    .steps = steps_,
                    .outside = outside_,
                    .logs = logs,
                    .log = log,
                    .elastic = {},
                    .ports = {},
                    .place = place_on(granted_.nodes)};
    const auto master_end = context.files().master_end(context.start());
    ASSERT_TRUE(base::make_directories(master_end.parent_path()));
    auto held =
        hold_ports({.arguments = {"sh", "-c",
                                  "echo batchai-port worker 0 n1 7; "
                                  "echo batchai-port worker 1 n2 8; "
                                  "echo batchai-port ps 0 n1 9; sleep 1"},
                    .environment = base::environment_without({}),
                    .messages_path = path("messages")},
                   {.workers = 2, .parameter_servers = 1, .master = TensorFlowMaster::chief},
                   {nodes, addresses});
    ASSERT_TRUE(held && held->ports);
    context.held_ports = std::move(held->ports);
    context.held_ports->tasks.parameter_servers.clear();  // no srun is there to start them
    TensorFlowJob job(context);
    plan::Step workers = plan_.steps.front();
    base::Environment environment;
    ASSERT_TRUE(job.start(workers, environment));
    const StepResult failed{.exit_code = 1,
                            .messages = "srun: error: n2: task 1: Exited with exit code 1\n"};
    EXPECT_FALSE(job.has_succeeded(failed));
    EXPECT_FALSE(job.poll());
    append("job/attempts/1.master-end", "ended\n");
    EXPECT_TRUE(job.has_succeeded(failed));
    EXPECT_FALSE(job.has_succeeded({.exit_code = 130, .stopped_by = SIGINT}));
    EXPECT_TRUE(job.poll());
}

}  // namespace batchai::run
