// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan/make.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "plan/gpus.hpp"
#include "plan/planning.hpp"
#include "plan/slurm_options.hpp"

namespace batchai::plan {

Made make(const job::JobSpec& spec, const job::PositionTable& positions, const site::Site& site,
          const Inputs& inputs) {
    Planning planning{.spec = spec,
                      .positions = positions,
                      .site = site,
                      .inputs = inputs,
                      .findings = Findings(positions)};
    planning.plan.identity = inputs.identity;
    planning.plan.tool_type = job::tool_type(spec.toolkit);
    planning.plan.mpi = site.mpi;
    if (!site.health.directory.empty())
        planning.plan.health = HealthChecks{.directory = site.health.directory,
                                            .time_limit = site.health.time_limit,
                                            .total_time_limit = site.health.total_time_limit,
                                            .retries = site.health.retries};
    planning.plan.note_failed_nodes = site.note_failed_nodes;
    plan_allocation(planning);
    plan_sweep_array(planning);
    plan_directories(planning);
    plan_mounts(planning);
    plan_container(planning);
    plan_policy(planning);
    plan_environment(planning);
    plan_node_setup(planning);
    plan_software(planning);
    plan_snapshot(planning);
    plan_notification(planning);
    plan_steps(planning);
    plan_retry(planning);
    plan_checkpoint(planning);
    plan_watch(planning);
    check_sweep_sizes(planning);

    Made made{std::nullopt, planning.findings.take(), {}};
    if (job::has_error(made.diagnostics)) return made;
    made.plan = std::move(planning.plan);
    made.mount_secrets = std::move(planning.mount_secrets);
    made.sweep = std::move(planning.sweep);
    return made;
}

namespace {

constexpr std::string_view node_count = "/properties/nodeCount";

// Ordinary users can only lower the priority of their jobs, so "high" is Slurm's own priority and
// the others are below it. "normal" is only a little below, because plain sbatch jobs of the same
// cluster are not lowered at all.
// The number of the older schemas, from -1000 to 1000, lies on the lines between the three.
int nice_of(const job::JobSpec& spec) {
    if (spec.priority)
        return *spec.priority >= 0 ? normal_nice - *spec.priority / 10
                                   : normal_nice - *spec.priority * 9 / 10;
    switch (spec.scheduling_priority) {
        case job::SchedulingPriority::low:
            return 1000;
        case job::SchedulingPriority::normal:
            break;
        case job::SchedulingPriority::high:
            return 0;
    }
    return normal_nice;
}

struct ProcessCount {
    std::optional<int> wanted;
    std::string_view key;  // empty: the toolkit has no such key
    std::string pointer;
};

template <typename Settings>
ProcessCount count_under(std::string_view key, std::optional<int> wanted) {
    return {wanted, key, fmt::format("/properties/{}/{}", Settings::settings_key, key)};
}

ProcessCount process_count(const job::Toolkit& toolkit) {
    return std::visit(
        []<typename Settings>(const Settings& settings) -> ProcessCount {
            if constexpr (requires { settings.process_count; })
                return count_under<Settings>("processCount", settings.process_count);
            if constexpr (requires { settings.worker_count; })
                return count_under<Settings>("workerCount", settings.worker_count);
            return {};
        },
        toolkit);
}

const site::VmSize* vm_size_of(Planning& planning) {
    const auto& cluster = planning.inputs.cluster;
    if (!cluster || cluster->vm_size.empty()) return nullptr;
    const auto& sizes = planning.site.vm_sizes;
    const std::string wanted = base::upper(cluster->vm_size);
    if (const auto found = sizes.find(wanted); found != sizes.end()) return &found->second;
    if (planning.site.any_vm_size) return nullptr;
    std::vector<std::string_view> names;
    names.reserve(sizes.size());
    for (const auto& [name, size] : sizes)
        names.emplace_back(name);
    const auto guess = base::nearest(wanted, names);
    planning.findings.add(
        Finding::unknown_vm_size, {},
        fmt::format("cluster \"{}\" has the VM size \"{}\", which this site does not have{}",
                    cluster->name, cluster->vm_size,
                    guess ? fmt::format("; did you mean \"{}\"?", *guess) : std::string()),
        names.empty() ? "ask the admin to add it to vm_sizes in site.lua"
                      : fmt::format("this site has {}", fmt::join(names, ", ")));
    return nullptr;
}

void put_text(std::vector<SlurmOption>& options, std::string name, const std::string& value,
              Origin origin) {
    if (value.empty()) return;
    options.push_back({.name = std::move(name), .value = value, .origin = origin});
}

}  // namespace

std::vector<SlurmOption> site_options(const site::Site& site) {
    std::vector<SlurmOption> options;
    // A node of Batch AI runs one job at a time.
    if (site.exclusive)
        options.push_back({.name = "exclusive", .value = {}, .origin = Origin::site});
    put_text(options, "partition", site.default_partition, Origin::site);
    put_text(options, "account", site.account, Origin::site);
    put_text(options, "qos", site.qos, Origin::site);
    return options;
}

namespace {

std::vector<SlurmOption> options_of(const site::VmSize& size) {
    std::vector<SlurmOption> options;
    put_text(options, "partition", size.partition, Origin::vm_size);
    put_text(options, "constraint", size.constraint, Origin::vm_size);
    const bool only_gpus = size.gres.empty() && size.gpus > 0;
    put_text(options, "gres", only_gpus ? fmt::format("gpu:{}", size.gpus) : size.gres,
             Origin::vm_size);
    for (const site::ExtraOption& option : size.extra_options)
        options.push_back({.name = option.name, .value = option.value, .origin = Origin::vm_size});
    return options;
}

// Chooses among the options of all origins, which are added in the order of precedence.
std::vector<SlurmOption> chosen_options(const Planning& planning, const site::VmSize* size) {
    const SlurmChoices& choices = planning.inputs.slurm;
    std::vector<SlurmOption> options;
    put_options(options, site_options(planning.site));
    if (size != nullptr) put_options(options, options_of(*size));
    put_settings(options, choices.defaults, Origin::user_config);
    if (planning.spec.slurm) put_settings(options, *planning.spec.slurm, Origin::job_file);
    put_settings(options, choices.flags, Origin::flag);
    put_options(options, choices.words);
    return options;
}

void check_node_limit(Planning& planning) {
    const auto& cluster = planning.inputs.cluster;
    const int nodes = planning.spec.node_count + planning.spec.spare_nodes.value_or(0);
    if (!cluster || !cluster->node_limit || nodes <= *cluster->node_limit) return;
    const Identity& identity = planning.inputs.identity;
    planning.findings.add(
        Finding::too_many_nodes, node_count,
        fmt::format("the job asks for {} nodes, cluster \"{}\" has {}", nodes, cluster->name,
                    *cluster->node_limit),
        fmt::format("batchai cluster resize --name {} --resource-group {} --workspace {} "
                    "--target {}",
                    cluster->name, identity.resource_group, identity.workspace, nodes));
}

void plan_processes(Planning& planning, const site::VmSize* size) {
    Allocation& allocation = planning.plan.allocation;
    const ProcessCount count = process_count(planning.spec.toolkit);
    allocation.nodes = planning.spec.node_count;
    allocation.spare_nodes = planning.spec.spare_nodes.value_or(0);
    allocation.processes = count.wanted.value_or(allocation.nodes);
    const bool custom = std::holds_alternative<job::CustomToolkitSettings>(planning.spec.toolkit);
    // The user's own launcher decides how many processes it starts. The processes counted here are
    // the slots of the host file, one for each GPU.
    if (custom && size != nullptr) allocation.processes *= std::max(1, size->gpus);
    if (allocation.processes < allocation.nodes) {
        planning.findings.add(
            Finding::too_few_processes, count.pointer,
            fmt::format("\"{}\" is {}, less than the {} nodes of the job", count.key,
                        allocation.processes, allocation.nodes),
            fmt::format("each node runs at least one process: lower \"nodeCount\" to {} or raise "
                        "\"{}\"",
                        allocation.processes, count.key));
        return;
    }
    // The usual (processes + nodes - 1) / nodes could overflow.
    allocation.processes_per_node = allocation.processes / allocation.nodes +
                                    (allocation.processes % allocation.nodes == 0 ? 0 : 1);
}

// Slurm spreads the GPUs of --gpus over the nodes as it likes: of six, the first of three nodes
// with four gets four. Steps beside others, such as the preparation, and those on some of the
// nodes, ask for all GPUs again and are refused. The ranks need equally many on each node, and on a
// spare node as many as on the one whose place it takes.
void divide_gpus(Planning& planning) {
    Allocation& allocation = planning.plan.allocation;
    SlurmOption* total = nullptr;
    for (SlurmOption& option : allocation.options) {
        // Whoever asks for both has counted as Slurm does.
        if (asks_for_gpus_of_a_part(option)) return;
        if (option.name == "gpus") total = &option;
    }
    if (total == nullptr || allocation.all_nodes() == 1) return;
    const auto value = gpus_of_each_node(total->value, allocation.nodes);
    if (!value) {
        if (allocation.spare_nodes == 0) return;
        planning.findings.add(
            Finding::uneven_gpus, "/properties/spareNodes",
            fmt::format("{} cannot be divided equally among the {} nodes of the job, so nobody "
                        "knows how many GPUs a spare node needs",
                        argument_of(*total), allocation.nodes),
            "say how many GPUs each node has, with --gpus-per-node or \"slurm\": "
            "{\"gpus-per-node\": \"2\"}");
        return;
    }
    SlurmOption each = *total;
    each.name = "gpus-per-node";
    each.value = *value;
    planning.plan.notices.push_back(
        fmt::format("{} is asked for as {}, so that each node has as many", argument_of(*total),
                    argument_of(each)));
    *total = std::move(each);
}

void check_gpus(Planning& planning) {
    const Allocation& allocation = planning.plan.allocation;
    const int gpus = gpus_of_job(allocation).value_or(0);
    if (gpus > 0 && allocation.processes > gpus)
        planning.findings.add(
            Finding::shared_gpus, process_count(planning.spec.toolkit).pointer,
            fmt::format("the job has {} processes and {} GPUs, so several ranks share a GPU",
                        allocation.processes, gpus),
            "NCCL refuses that, and mpi_bridge then goes through host memory; use at most as many "
            "processes as GPUs");
    const auto has = [&](std::string_view name) {
        return std::any_of(allocation.options.begin(), allocation.options.end(),
                           [&](const SlurmOption& option) { return option.name == name; });
    };
    if (has("gpus-per-task"))
        planning.plan.notices.emplace_back(
            "with --gpus-per-task, each rank sees only its own GPUs, and where Slurm constrains "
            "devices the ranks of a node cannot copy between their GPUs directly; gpus-per-node "
            "shows all ranks of a node all its GPUs");
}

}  // namespace

void plan_allocation(Planning& planning) {
    Allocation& allocation = planning.plan.allocation;
    const site::VmSize* size = vm_size_of(planning);
    plan_processes(planning, size);
    check_node_limit(planning);
    allocation.nice = nice_of(planning.spec);
    if (size != nullptr && size->cpus > 0)
        allocation.cpus_per_process = std::max(1, size->cpus / allocation.processes_per_node);
    allocation.options = chosen_options(planning, size);
    divide_gpus(planning);
    check_gpus(planning);
    // A limit is asked for only if the job file sets one. Batch AI's default of seven days would
    // keep the job out of partitions with a shorter limit.
    if (planning.positions.contains("/properties/constraints/maxWallClockTime"))
        allocation.time_limit =
            std::chrono::ceil<std::chrono::minutes>(planning.spec.max_wall_clock_time);
}

}  // namespace batchai::plan
