// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/gpu_check.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.hpp"
#include "node/bundle/bundle.hpp"
#include "plan/gpus.hpp"
#include "run/again/hosts.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

// A task whose Slurm names no GPUs of NVIDIA's to it, or that does not find the program, reports
// nothing. Each other one reports to a file of its own (JobFiles::gpu_reports).
constexpr std::string_view run_if_there_are_gpus =
    R"(if [ -z "$CUDA_VISIBLE_DEVICES" ] || [ ! -x "$0" ]; then exit 0; fi
exec "$0" "$@")";

// Returns the driver that most nodes have; the first node's, if several are as frequent. Empty if
// no node tells.
std::string usual_driver(const std::vector<NodeReport>& nodes) {
    std::map<std::string, int> counts;
    std::string usual;
    for (const NodeReport& node : nodes) {
        if (node.report && !node.report->driver.empty()) ++counts[node.report->driver];
    }
    for (const NodeReport& node : nodes) {
        if (!node.report || node.report->driver.empty()) continue;
        if (usual.empty() || counts[node.report->driver] > counts[usual])
            usual = node.report->driver;
    }
    return usual;
}

// A speed in bytes per second as a node reports it; 0 if it does not know it.
double speed_of(const std::string& text) {
    return static_cast<double>(base::number_in<std::int64_t>(text).value_or(0));
}

// Remarks on each node whose GPUs copy at less than half of the speed of most others. Only nodes
// with equally many GPUs are compared, and only if all have. `member` is one of the speeds of a
// report, and `what` says which, such as "copy to each other at".
void compare_speeds(const std::vector<NodeReport>& nodes, std::string record::GpuReport::*member,
                    std::string_view what, std::vector<std::string>& remarks) {
    std::vector<double> speeds;
    std::set<std::string> counts;
    for (const NodeReport& node : nodes) {
        const double speed = node.report ? speed_of((*node.report).*member) : 0;
        if (speed > 0) counts.insert(node.report->gpus);
        if (speed > 0) speeds.push_back(speed);
    }
    if (speeds.size() < 2 || counts.size() > 1) return;
    std::sort(speeds.begin(), speeds.end());
    // Of an even number the faster one of the two in the middle, so that one of two can be slow.
    const double usual = speeds[speeds.size() / 2];
    for (const NodeReport& node : nodes) {
        const double speed = node.report ? speed_of((*node.report).*member) : 0;
        if (speed > 0 && speed < usual / 2)
            remarks.push_back(
                fmt::format("{}: its GPUs {} {:.1f} GB/s, those of other nodes {:.1f}", node.node,
                            what, speed / 1e9, usual / 1e9));
    }
}

// Says on how many nodes no allreduce was tried, and why on the first one; empty: on none.
std::string without_allreduce(const std::vector<NodeReport>& nodes) {
    const auto unchecked = [](const NodeReport& node) {
        return node.report && !node.report->nccl_unchecked.empty();
    };
    const auto first = std::find_if(nodes.begin(), nodes.end(), unchecked);
    if (first == nodes.end()) return {};
    return fmt::format("NCCL was not checked on {} of {} nodes; on {}: {}",
                       std::count_if(nodes.begin(), nodes.end(), unchecked), nodes.size(),
                       first->node, first->report->nccl_unchecked);
}

// The user's --gpu-bind may show each rank only some of the node's GPUs. The one task of the check
// sees them all. (With --gpus-per-task, Slurm gives it no more than those of one rank.)
base::Environment without_binding(base::Environment environment) {
    std::erase_if(environment, [](const std::string& variable) {
        // The second is that of Slurm 24.11 and newer.
        return variable.starts_with("SLURM_GPU_BIND=") || variable.starts_with("SLURM_TRES_BIND=");
    });
    return environment;
}

}  // namespace

bool wants_gpu_check(const plan::Plan& plan, const std::string& gpus_on_node,
                     const std::string& of_user) {
    std::string setting = of_user;
    for (const plan::Variable& variable : plan.environment) {
        if (variable.name == gpu_check_variable) setting = variable.value;
    }
    const bool has_gpus = plan::gpus_of_job(plan.allocation).has_value() ||
                          (!gpus_on_node.empty() && gpus_on_node != "0");
    return has_gpus && setting != "0";
}

GpuVerdict verdict_on(const std::vector<NodeReport>& nodes) {
    GpuVerdict verdict;
    const std::string driver = usual_driver(nodes);
    for (const auto& [node, report] : nodes) {
        if (!report) {
            verdict.remarks.push_back(fmt::format("the GPUs of {} were not checked", node));
            continue;
        }
        for (const std::string& remark : {report->slow, report->direct, report->nccl}) {
            if (!remark.empty()) verdict.remarks.push_back(fmt::format("{}: {}", node, remark));
        }
        // NCCL does not ask for equal drivers, and sites renew them node by node.
        if (!report->driver.empty() && report->driver != driver)
            verdict.remarks.push_back(
                fmt::format("{}: its NVIDIA driver is {}, that of the other nodes {}", node,
                            report->driver, driver));
        if (report->fault.empty()) continue;
        verdict.remarks.push_back(fmt::format("{}: {}", node, report->fault));
        if (verdict.bad_nodes.empty()) verdict.fault = report->fault;
        verdict.bad_nodes.push_back(node);
    }
    compare_speeds(nodes, &record::GpuReport::host, "copy from and to the host at",
                   verdict.remarks);
    compare_speeds(nodes, &record::GpuReport::peers, "copy to each other at", verdict.remarks);
    compare_speeds(nodes, &record::GpuReport::allreduce, "reduce over NCCL at", verdict.remarks);
    return verdict;
}

bool GpuCheck::wanted(const Context& context) {
    return context.main_step() != nullptr &&
           wants_gpu_check(context.plan, from_environment("SLURM_GPUS_ON_NODE").value_or(""),
                           from_environment(gpu_check_variable).value_or(""));
}

PhaseEnd GpuCheck::run(Context& context) {
    const bool in_container = context.plan.container.has_value();
    const auto reports = context.files().gpu_reports(context.start());
    // Once ranks have run, each start has its own check, and a spare node may have to wait for it.
    const auto nodes = context.place.restarts == 0 ? context.ready_nodes() : context.place.nodes;
    expect_node_failures(context);
    record::forget_reports(reports);
    const auto result = context.steps.run(
        {.arguments = phase_arguments(
             context.plan, {.layout = one_task_per_node(static_cast<int>(nodes.size())),
                            .nodes = context.to_name(nodes),
                            .command = {"/bin/sh", "-c", guarded(run_if_there_are_gpus),
                                        in_container ? node::bundle_gpu_check
                                                     : program_on_nodes("mpi_bridge_gpus"),
                                        "--report", reports.string()}}),
         .environment =
             without_binding(srun_environment(step_environment(context, plan::StepKind::master))),
         .deadline = check_deadline(in_container)});
    context.log.collect_traces();
    if (result && result->exit_code != 0) {
        if (auto ending = ended_from_outside(context, *result, name))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
    }
    std::vector<NodeReport> of_nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        of_nodes.push_back({nodes[i], record::gpu_report(reports, static_cast<int>(i))});
    const auto checked = std::count_if(of_nodes.begin(), of_nodes.end(),
                                       [](const NodeReport& of) { return of.report; });
    if (result && result->exit_code != 0 && checked == 0) {
        // The step has not come to the check, because its sandbox could not be made.
        context.log.master(first_error_line(result->messages));
        if (auto ending = node_failure(context, name, false, result->stopped_by))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
    }
    GpuVerdict verdict = verdict_on(of_nodes);
    for (const std::string& remark : verdict.remarks) {
        context.log.master(remark);
        std::printf("batchai: notice: %s\n", remark.c_str());
    }
    std::fflush(stdout);
    if (verdict.bad_nodes.empty()) {
        if (checked > 0)
            context.log.master(fmt::format(
                "the GPUs of {} of {} nodes were checked and can be used", checked, nodes.size()));
        if (const auto why = without_allreduce(of_nodes); !why.empty()) context.log.master(why);
        return {};
    }
    constexpr const char* message = "The GPUs of a node cannot be used";
    const std::string first = verdict.bad_nodes.front();
    std::fprintf(stderr, "batchai: %s: %s: %s\n", message, first.c_str(), verdict.fault.c_str());
    // At a restart, the ranks that were killed may still hold a GPU.
    return ends_with({.failure = {.code = gpu_check_failed,
                                  .message = message,
                                  .phase = std::string(name),
                                  .node = first,
                                  .first_error_line = std::move(verdict.fault)},
                      .more_bad_nodes = without(verdict.bad_nodes, {first}),
                      .may_start_again = true,
                      .of_node = true});
}

}  // namespace batchai::run
