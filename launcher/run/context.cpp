// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/context.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/file.hpp"
#include "record/step_variables.hpp"
#include "run/again/elastic.hpp"
#include "spank/protocol.h"

namespace batchai::run {

Place place_on(std::vector<std::string> nodes, int restarts) {
    Place place{.nodes = std::move(nodes), .addresses = {}, .restarts = restarts};
    for (const std::string& node : place.nodes)
        place.addresses.push_back(base::address_of(node));
    return place;
}

const plan::Step* Context::step(plan::StepKind kind) const {
    const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                    [&](const plan::Step& step) { return step.kind == kind; });
    return found == plan.steps.end() ? nullptr : &*found;
}

const plan::Step* Context::main_step() const {
    const plan::Step* const ranks = step(plan::StepKind::ranks);
    return ranks != nullptr ? ranks : step(plan::StepKind::master);
}

plan::Step Context::main_step_here() const {
    return place.restarts == 0 ? *main_step() : shrunk(*main_step(), place.nodes.size());
}

std::vector<std::string> Context::step_nodes() const {
    return place.nodes.size() == granted.nodes.size() ? std::vector<std::string>() : place.nodes;
}

std::string Context::rank_error_file(const std::string& rank) const {
    std::string start = std::to_string(attempt());
    if (place.restarts > 0) start += fmt::format("-{}", place.restarts);
    return files().rank_error(start, rank).string();
}

std::string output_directory(const plan::Plan& plan) {
    const auto& directories = plan.directories;
    return directories.stdouterr_host.empty() ? directories.stdouterr : directories.stdouterr_host;
}

base::Environment step_environment(const Context& context, plan::StepKind kind) {
    const std::vector<std::string>& addresses = context.place.addresses;
    const std::string& first = addresses.front();
    base::Environment out{"BATCHAI_PLAN=" + context.options.plan_path,
                          "BATCHAI_PLAN_DIGEST=" + context.options.digest,
                          fmt::format("AZ_BATCH_HOST_LIST={}", fmt::join(addresses, ",")),
                          "AZ_BATCHAI_MPI_MASTER_NODE=" + first,
                          "AZ_BATCHAI_JOB_MASTER_NODE_IP=" + first};
    if (context.ports.job)
        out.push_back(
            fmt::format("AZ_BATCH_MASTER_NODE={}:{}", first, context.ports.job->number()));
    if (kind == plan::StepKind::ranks && context.elastic) {
        out.push_back("BATCHAI_ELASTIC_DIRECTORY=" + context.files().elastic().string());
        out.emplace_back("HOROVOD_ELASTIC=1");
    }
    if (kind == plan::StepKind::preparation)
        out.emplace_back(BATCHAI_IDENTITY_VARIABLE "=" BATCHAI_IDENTITY_ROOT);
    // The plugin makes the ranks' RANK, MASTER_PORT, … of these. What runs once on a node or once
    // altogether is no rank, and would be misled by a WORLD_SIZE.
    if (kind != plan::StepKind::ranks)
        out.emplace_back(BATCHAI_RANK_VARIABLES_VARIABLE "=" BATCHAI_NO_RANKS);
    else if (context.ports.ranks)
        out.push_back(
            fmt::format(BATCHAI_MASTER_VARIABLE "={} {}", first, context.ports.ranks->number()));
    return out;
}

std::string host_file(const std::vector<std::string>& addresses, int slots) {
    std::string out;
    for (const std::string& address : addresses)
        out += fmt::format("{0} slots={1} max_slots={1}\n", address, slots);
    return out;
}

base::Result<void> write_host_file(const Context& context) {
    const int slots = std::max(1, context.plan.allocation.processes_per_node);
    TRY(base::write_atomically(context.files().host_file(),
                               host_file(context.place.addresses, slots)));
    return record::write_step_variables(context.files(),
                                        step_environment(context, plan::StepKind::master));
}

}  // namespace batchai::run
