// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/health.hpp"

#include <chrono>
#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/wire_up.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

using record::HealthOutcome;

// For the start and the end of the step, which may have to wait for a slow node.
constexpr std::chrono::seconds beside_the_checks{60};

std::string_view word_of(HealthOutcome outcome) {
    switch (outcome) {
        case HealthOutcome::ok:
            break;
        case HealthOutcome::warning:
            return "warns";
        case HealthOutcome::failed:
            return "failed";
        case HealthOutcome::unknown:
            return "could not be run";
    }
    return "is in order";
}

void add_node(HealthVerdict& verdict, const NodeHealth& of) {
    if (!of.report) {
        verdict.remarks.push_back(fmt::format("the health of {} was not checked", of.node));
        return;
    }
    if (!of.report->refused.empty()) {
        verdict.remarks.push_back(
            fmt::format("the health of {} was not checked: {}", of.node, of.report->refused));
        return;
    }
    ++verdict.checked;
    bool bad = false;
    for (const record::HealthCheck& check : of.report->checks) {
        if (check.outcome == HealthOutcome::ok) continue;
        verdict.remarks.push_back(fmt::format("{}: health check {} {}: {}", of.node, check.name,
                                              word_of(check.outcome), check.line));
        if (check.outcome != HealthOutcome::failed || std::exchange(bad, true)) continue;
        verdict.bad.push_back(
            {.node = of.node, .fault = fmt::format("{}: {}", check.name, check.line)});
    }
}

Ending ending_of(const HealthVerdict& verdict) {
    const auto words = record::words_of(record::EndedBy::health);
    const auto& first = verdict.bad.front();
    Ending ending{.failure = {.code = std::string(words.code),
                              .message = std::string(words.message),
                              .phase = std::string(Health::name),
                              .node = first.node,
                              .first_error_line = first.fault},
                  .by = record::EndedBy::health};
    for (std::size_t i = 1; i < verdict.bad.size(); ++i)
        ending.more_bad_nodes.push_back(verdict.bad[i].node);
    return ending;
}

// Returns whether the job goes on without the nodes that have failed.
bool replaced(Context& context, const HealthVerdict& verdict) {
    std::vector<std::string> bad;
    for (const auto& [node, fault] : verdict.bad)
        bad.push_back(node);
    if (!context.leave_out(bad)) return false;
    for (const std::string& node : bad)
        context.node_failed(node, record::NodeFaultKind::health);
    context.log.warn(fmt::format("the job goes on without {}, which {} failed a health check",
                                 fmt::join(bad, ", "), bad.size() == 1 ? "has" : "have"));
    return true;
}

}  // namespace

HealthVerdict verdict_on(const std::vector<NodeHealth>& nodes) {
    HealthVerdict verdict;
    for (const NodeHealth& of : nodes)
        add_node(verdict, of);
    return verdict;
}

PhaseEnd Health::run(Context& context) {
    const auto reports = context.files().health_reports(context.start());
    const auto& nodes = context.granted.nodes;
    record::forget_reports(reports);
    const plan::HealthChecks& checks = *context.plan.health;
    // Each task reports to a file of its own (JobFiles::health_reports).
    const auto result = context.steps.run(
        {.arguments = phase_arguments(
             context.plan,
             {.layout = one_task_per_node(static_cast<int>(nodes.size())),
              .name = "batchai-health",
              .command = {program_on_nodes("batchai-node"), "health", "--directory",
                          checks.directory, "--time-limit", std::to_string(checks.time_limit),
                          "--total-time-limit", std::to_string(checks.total_time_limit), "--report",
                          reports.string()}}),
         .environment = environment_of_bare_nodes(),
         .deadline = std::chrono::seconds(checks.total_time_limit) + beside_the_checks});
    if (result && result->exit_code != 0) {
        if (auto ending = ended_from_outside(context, *result, name))
            return {.exit_code = result->exit_code, .ending = std::move(ending)};
    }
    std::vector<NodeHealth> of_nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
        of_nodes.push_back({nodes[i], record::health_report(reports, static_cast<int>(i))});
    const HealthVerdict verdict = verdict_on(of_nodes);
    if (!result)
        context.log.master("the health of the nodes: " + result.error().text());
    else if (verdict.checked == 0 && result->exit_code != 0)
        context.log.master(first_error_line(result->messages));
    for (const std::string& remark : verdict.remarks) {
        context.log.master(remark);
        std::printf("batchai: notice: %s\n", remark.c_str());
    }
    std::fflush(stdout);
    if (!verdict.bad.empty() && !replaced(context, verdict)) {
        Ending ending = ending_of(verdict);
        std::fprintf(stderr, "batchai: %s: %s: %s\n", ending.failure.message.c_str(),
                     ending.failure.node.c_str(), ending.failure.first_error_line.c_str());
        return ends_with(std::move(ending));
    }
    if (const std::size_t good = static_cast<std::size_t>(verdict.checked) - verdict.bad.size();
        good > 0)
        context.log.master(fmt::format(
            "the site's checks have found nothing wrong with {} of {} nodes", good, nodes.size()));
    return {};
}

}  // namespace batchai::run
