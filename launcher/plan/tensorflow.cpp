// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/tensorflow.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "job/model.hpp"

namespace batchai::plan {

base::Result<TensorFlowMaster> tensorflow_master(const std::vector<Variable>& environment) {
    const std::string* const word = last_value(environment, tensorflow_config_variable);
    if (word == nullptr || *word == "worker") return TensorFlowMaster::worker;
    if (*word == "master") return TensorFlowMaster::master;
    if (*word == "chief") return TensorFlowMaster::chief;
    return base::fail(fmt::format(R"({} is "{}"; it must be "worker", "master" or "chief")",
                                  tensorflow_config_variable, *word),
                      tensorflow_config_variable);
}

std::optional<TensorFlowCluster> tensorflow_cluster(const Plan& plan) {
    if (plan.tool_type != job::TensorFlowSettings::tool_type) return std::nullopt;
    TensorFlowCluster cluster{.workers = 0};
    for (const Step& step : plan.steps) {
        if (step.kind == StepKind::ranks) cluster.workers = step.processes;
        if (step.kind == StepKind::parameter_servers) cluster.parameter_servers = step.processes;
    }
    if (cluster.workers + cluster.parameter_servers < 2) return std::nullopt;
    // The planner has refused other words.
    cluster.master = tensorflow_master(plan.environment).value_or(TensorFlowMaster::worker);
    return cluster;
}

}  // namespace batchai::plan
