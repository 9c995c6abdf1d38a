// SPDX-License-Identifier: GPL-2.0-or-later
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/wire_up_check.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr std::chrono::seconds node_deadline{60};
// With a container to make, and volumes to mount in it.
constexpr std::chrono::seconds container_deadline{240};
constexpr int most_tries = 3;

base::Result<StepResult> check(Context& context, const plan::Step& ranks, bool in_container) {
    const auto program = in_container ? check_in_container() : check_on_nodes();
    context.had_sandbox = context.had_sandbox || in_container;
    const StepRequest request{
        .arguments =
            wire_up_arguments(context.plan, ranks, context.plan.mpi, program, context.step_nodes()),
        .environment = in_container ? srun_environment(step_environment(context, ranks.kind))
                                    : environment_of_bare_nodes(),
        .deadline = in_container ? container_deadline : node_deadline};
    auto result = context.steps.run(request);
    for (int tries = 1; tries < most_tries && worth_another_try(result); ++tries) {
        context.log.master("PMIx did not answer in time; the wire-up check is made again");
        result = context.steps.run(request);
    }
    context.log.collect_traces();
    return result;
}

}  // namespace

PhaseEnd WireUp::run(Context& context) {
    const plan::Step ranks = context.main_step_here();
    expect_node_failures(context);
    bool in_container = context.plan.container.has_value();
    auto result = check(context, ranks, in_container);
    const auto reason =
        in_container && result ? why_not_in_container(result->messages) : std::nullopt;
    if (reason && !result->stopped_by) {
        const std::string notice = fmt::format(
            "the wire-up check runs on the nodes, not in the container, and tells nothing of the "
            "image's PMIx: {}",
            *reason);
        context.log.master(notice);
        std::printf("batchai: notice: %s\n", notice.c_str());
        std::fflush(stdout);
        in_container = false;
        result = check(context, ranks, in_container);
    }
    if (result && result->exit_code == 0) {
        context.log.master(fmt::format("PMIx wires {} ranks{}", ranks.processes,
                                       in_container ? " in the container" : ""));
        return {};
    }
    const int step_code = result ? result->exit_code : 1;
    const std::string said = result ? result->messages : result.error().text() + "\n";
    context.logs.append_text(ranks.stderr_name, said);
    std::fputs(said.c_str(), stderr);
    auto ending = result ? ended_from_outside(context, *result, name) : std::nullopt;
    if (!ending) ending = node_failure(context, name);
    if (ending) return {.exit_code = step_code, .ending = std::move(ending)};
    int exit_code = step_code;
    if (const auto ends = bad_ends(said); !ends.empty())
        exit_code = exit_code_of(ends.front(), exit_code);
    WireUpFault fault = wire_up_fault(said, in_container);
    std::fprintf(stderr, "batchai: %s: %s\n", fault.message.c_str(), fault.line.c_str());
    return {.exit_code = step_code,
            .ending = Ending{.failure = {.code = std::move(fault.code),
                                         .message = std::move(fault.message),
                                         .phase = std::string(name),
                                         .exit_code = exit_code,
                                         .first_error_line = std::move(fault.line)},
                             .exit_code = exit_code,
                             .may_start_again = true}};
}

}  // namespace batchai::run
