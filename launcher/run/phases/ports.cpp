// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "plan/tensorflow.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/srun_arguments.hpp"
#include "run/tensorflow/held_ports.hpp"

namespace batchai::run {

bool HoldPorts::wanted(const Context& context) {
    return plan::tensorflow_cluster(context.plan).has_value();
}

PhaseEnd HoldPorts::run(Context& context) {
    const plan::TensorFlowCluster cluster = *plan::tensorflow_cluster(context.plan);
    std::error_code error;
    const auto program = std::filesystem::read_symlink("/proc/self/exe", error).string();
    // Without these variables, the tasks that hold the ports would not be where the workers are.
    base::Environment environment = environment_of_bare_nodes();
    for (std::string& variable : layout_variables(context.plan, from_environment))
        environment.push_back(std::move(variable));
    auto answer = hold_ports(
        {.arguments = phase_arguments(
             context.plan,
             {.layout = context.main_step_here(),
              .nodes = context.step_nodes(),
              .name = "batchai-ports",
              .shares_nodes = true,
              .unbuffered = true,
              .ends_at_first_failure = true,
              .command = {program, "hold-ports",
                          fmt::format("--parameter-servers={}", cluster.parameter_servers)}}),
         .environment = std::move(environment),
         .messages_path = context.files().step_messages(context.start(), name).string(),
         .stopped_by = [&] { return context.steps.stopped_by(); }},
        cluster, {.nodes = context.place.nodes, .addresses = context.place.addresses});
    if (answer && answer->ports) {
        context.held_ports = std::move(answer->ports);
        const TensorFlowTasks& tasks = context.held_ports->tasks;
        context.log.master(fmt::format("ports are held for the workers {} and {} parameter servers",
                                       fmt::join(tasks.workers, ","),
                                       tasks.parameter_servers.size()));
        return {};
    }
    if (answer) {
        const int signal = answer->stopped_by.value();
        const StepResult stopped{.exit_code = 128 + signal, .stopped_by = signal};
        if (auto ending = ended_from_outside(context, stopped, name))
            return ends_with(std::move(*ending));
    }
    const record::EndWords words = record::words_of(record::EndedBy::start);
    const std::string line = answer ? std::string() : answer.error().text();
    std::fprintf(stderr, "batchai: error: %s\n", line.c_str());
    return ends_with({.failure = {.code = std::string(words.code),
                                  .message = std::string(words.message),
                                  .phase = std::string(name),
                                  .first_error_line = line}});
}

}  // namespace batchai::run
