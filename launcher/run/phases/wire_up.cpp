// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/phases/wire_up.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "node/bundle/bundle.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"
#include "run/srun/guard.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr int no_answer = 75;  // exit code of mpi_bridge_wireup
constexpr std::string_view program_says = "mpi_bridge_wireup: ";
constexpr std::string_view has_no_check = "batchai: the container has no wire-up check: ";
constexpr std::string_view could_not_start = "batchai: mpi_bridge_wireup cannot run in the image";
constexpr std::string_view bundle_is = "batchai: the node's bundle is ";

// The shell stays, to say what the
// loader's message leaves open when the check cannot be started: the image's libpmix may lack what
// it needs. An image need not have any program besides this shell.
constexpr std::string_view check_script =
    R"(if [ ! -x {program} ]; then
  why="it was not brought in"
  if [ -r {note} ]; then read -r why < {note}; fi
  echo "{has_no_check}$why" >&2
  exit 69
fi
{program} "$@"
code=$?
if [ $code -ge 126 ]; then
  echo "{could_not_start} (exit code $code); the server is PMIx ${{PMIX_VERSION:-of unknown version}}" >&2
fi
if [ $code -ne 0 ] && [ -r {manifest} ] && read -r bundle < {manifest}; then
  echo "{bundle_is}$bundle" >&2
fi
exit $code)";

// The line that begins with the words, without them.
std::optional<std::string> rest_of_line(std::string_view said, std::string_view words) {
    const std::size_t at = said.find(words);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = said.substr(at + words.size());
    return std::string(rest.substr(0, rest.find('\n')));
}

// "4" of "…, server 4.2.2rc2 (offers …"; empty when it is not said.
std::string major_version_after(std::string_view said, std::string_view words) {
    const auto rest = rest_of_line(said, words);
    if (!rest) return {};
    return rest->substr(0, rest->find_first_not_of("0123456789"));
}

// "4.2.2rc2", or empty when the check has not said it.
std::string pmix_of_bundle(std::string_view said) {
    const auto text = rest_of_line(said, bundle_is);
    if (!text) return {};
    const auto manifest = node::parse_bundle_manifest(*text);
    return manifest ? ' ' + manifest->pmix : std::string();
}

std::string remedy(std::string_view said, const std::string& server) {
    return fmt::format(
        "give the image a PMIx library{} (jobPreparation can install it), or none, so that the "
        "node's{} is used",
        server.empty() ? std::string(" that works with the server") : " of version " + server,
        pmix_of_bundle(said));
}

}  // namespace

base::Arguments check_on_nodes() {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const fs::path beside =
        self.parent_path().parent_path() / BATCHAI_LIBEXEC_NAME / "mpi_bridge_wireup";
    if (!error && fs::exists(beside, error)) return {beside.string()};
    return {BATCHAI_LIBEXECDIR "/mpi_bridge_wireup"};
}

base::Arguments check_in_container() {
    return {"/bin/sh", "-c",
            guarded(fmt::format(
                check_script, fmt::arg("program", node::bundle_wire_up),
                fmt::arg("note", node::no_bundle_note), fmt::arg("manifest", node::bundle_manifest),
                fmt::arg("bundle_is", bundle_is), fmt::arg("has_no_check", has_no_check),
                fmt::arg("could_not_start", could_not_start))),
            "batchai-wire-up"};
}

std::optional<std::string> why_not_in_container(std::string_view said) {
    return rest_of_line(said, has_no_check);
}

// Slurm 22.05's PMIx server loses a connection now and then (slurmstepd has the user's effective id
// while it starts the tasks, and refuses other nodes meanwhile). Only that is tried again.
bool worth_another_try(const base::Result<StepResult>& result) {
    if (!result || result->exit_code == 0 || result->stopped_by) return false;
    const auto ends = bad_ends(result->messages);
    return std::any_of(ends.begin(), ends.end(),
                       [](const TaskEnd& end) { return end.exit_code == no_answer; });
}

WireUpFault wire_up_fault(const std::string& said, bool in_container) {
    constexpr const char* code = "WireUpFailed";
    constexpr const char* message = "The ranks could not be wired together by PMIx";
    // Before the program's own words, which look much like the loader's about it.
    if (const auto rest = rest_of_line(said, could_not_start); in_container && rest)
        return {code, message,
                fmt::format("{}{}: {}; {}", could_not_start, *rest, first_error_line(said),
                            remedy(said, major_version_after(said, "the server is PMIx ")))};
    // srun's words around it only follow from that.
    if (const auto rest = rest_of_line(said, program_says)) {
        std::string line = std::string(program_says) + *rest;
        const auto library = rest_of_line(line, "the client library is ");
        if (in_container && library && !library->starts_with(node::bundle_root))
            line += "; that library is the image's own: " +
                    remedy(said, major_version_after(line, ", server "));
        return {code, message, std::move(line)};
    }
    if (!in_container) return {code, message, first_error_line(said)};
    return {"FailedStartingContainer", "The job's container could not be started",
            first_error_line(said)};
}

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
