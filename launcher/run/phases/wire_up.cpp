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
#include "record/task_reports.hpp"
#include "run/blame/culprit.hpp"
#include "run/blame/outside.hpp"
#include "run/blame/slurm_words.hpp"
#include "run/phases/phase.hpp"
#include "run/phases/task_outputs.hpp"
#include "run/srun/srun_arguments.hpp"

namespace batchai::run {

namespace {

constexpr int no_answer = 75;  // exit code of mpi_bridge_wireup
// A shell runs the check and outlives it. If the check cannot be started because the image's
// libpmix lacks something that it needs, the shell adds what the loader's message does not say. The
// shell gets the check's arguments and reports in the same way.
constexpr std::string_view check_script =
    R"(reports=$4
if [ ! -x {program} ]; then
  why="it was not added to the container"
  if [ -r {note} ]; then read -r why < {note}; fi
  printf '%s\n' "$why" > "$reports.$SLURM_PROCID.txt"
  exit 69
fi
{program} "$@"
code=$?
if [ $code -ge 126 ]; then
  printf '{{"schema": "mpi_bridge-wireup/v1", "exitCode": %s, "server": "%s"}}\n' "$code" "$PMIX_VERSION" > "$reports.$SLURM_PROCID.json"
fi
if [ $code -ne 0 ] && [ -r {manifest} ] && read -r bundle < {manifest}; then
  printf '%s\n' "$bundle" > "$reports.$SLURM_PROCID.bundle.json"
fi
exit $code)";

// Returns "4" for "4.2.2rc2".
std::string major_number(const std::string& version) {
    return version.substr(0, version.find_first_not_of("0123456789"));
}

std::string remedy(const WireUpWords& words) {
    const std::string server = words.report ? major_number(words.report->server) : std::string();
    return fmt::format(
        "give the image a PMIx library{} (jobPreparation can install it), or none, so that the "
        "node's{} is used",
        server.empty() ? std::string(" that works with the server") : " of version " + server,
        words.bundled_pmix.empty() ? std::string() : ' ' + words.bundled_pmix);
}

}  // namespace

std::string program_on_nodes(std::string_view name) {
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    const fs::path beside = self.parent_path().parent_path() / BATCHAI_LIBEXEC_NAME / name;
    if (!error && fs::exists(beside, error)) return beside.string();
    return fmt::format("{}/{}", BATCHAI_LIBEXECDIR, name);
}

base::Arguments check_on_nodes() {
    return {program_on_nodes("mpi_bridge_wireup")};
}

base::Arguments check_in_container() {
    return {"/bin/sh", "-c",
            guarded(fmt::format(check_script, fmt::arg("program", node::bundle_wire_up),
                                fmt::arg("note", node::no_bundle_note),
                                fmt::arg("manifest", node::bundle_manifest))),
            "batchai-wire-up"};
}

// Slurm 22.05's PMIx server sometimes loses a connection: slurmstepd has the user's effective id
// while it starts the tasks, and refuses other nodes during that time. On a busy node it may also
// be too slow to be connected to. Only these failures are tried again.
bool worth_another_try(const base::Result<StepResult>& result) {
    if (!result || result->exit_code == 0 || result->stopped_by) return false;
    if (pmix_has_lost_a_node(result->messages)) return true;
    const auto ends = bad_ends(result->messages);
    return std::any_of(ends.begin(), ends.end(),
                       [](const TaskEnd& end) { return end.exit_code == no_answer; });
}

WireUpWords words_of_wire_up(const std::filesystem::path& reports,
                             const std::filesystem::path& refusals, int ranks, std::string said) {
    WireUpWords words{.said = std::move(said)};
    const auto keep_first = [](auto& into, auto found) {
        if (!into) into = std::move(found);
    };
    std::optional<std::string> bundle;
    for (int rank = 0; rank < ranks; ++rank) {
        keep_first(words.report, record::wire_up_report(reports, rank));
        keep_first(words.why_none, record::why_no_wire_up(reports, rank));
        keep_first(words.refusal, record::refusal(refusals, rank));
        keep_first(bundle, record::bundle_in_use(reports, rank));
    }
    if (bundle) {
        if (const auto manifest = node::parse_bundle_manifest(*bundle))
            words.bundled_pmix = manifest->pmix;
    }
    return words;
}

std::chrono::seconds check_deadline(bool in_container) {
    return std::chrono::seconds(in_container ? 240 : 60);
}

WireUpFault wire_up_fault(const WireUpWords& words, bool in_container) {
    constexpr const char* code = "WireUpFailed";
    constexpr const char* message = "The ranks could not be wired together";
    const auto no_container = [](std::string line) -> WireUpFault {
        return {.code = "FailedStartingContainer",
                .message = "The job's container could not be started",
                .line = std::move(line)};
    };
    if (words.refusal) return no_container(words.refusal->substr(0, words.refusal->find('\n')));
    if (!words.report) {
        if (!in_container) return {code, message, first_error_line(words.said)};
        return no_container(first_error_line(words.said));
    }
    const record::WireUpReport& report = *words.report;
    if (report.exit_code)
        return {code, message,
                fmt::format("mpi_bridge_wireup cannot run in the image (exit code {}); the server "
                            "is PMIx {}: {}; {}",
                            *report.exit_code,
                            report.server.empty() ? "of unknown version" : report.server,
                            first_error_line(words.said), remedy(words))};
    std::string line = "mpi_bridge_wireup: " + report.fault;
    if (in_container && !report.library.empty() && !report.library.starts_with(node::bundle_root))
        line += "; that library is the image's own: " + remedy(words);
    return {code, message, std::move(line)};
}

namespace {

constexpr int most_tries = 3;
// Once a rank has failed, the others have this time to report what they know. If the step ended at
// once, srun might drop the very messages that say what is wrong.
constexpr std::chrono::seconds others_patience{15};

struct Checked {
    base::Result<StepResult> result;
    WireUpWords words;  // only of a check that failed
};

Checked check(Context& context, const plan::Step& ranks, bool in_container) {
    const auto reports = context.files().wire_up_reports(context.start());
    const std::string step_name = fmt::format("{}.{}", context.start(), WireUp::name);
    base::Environment environment = step_environment(context, ranks.kind);
    for (std::string& variable : report_variables(context.files(), step_name))
        environment.push_back(std::move(variable));
    base::Arguments command = in_container ? check_in_container() : check_on_nodes();
    // Each rank reports to a file of its own (JobFiles::wire_up_reports).
    command.insert(command.end(), {"--expect", std::to_string(ranks.processes), "--report",
                                   reports.string(), "--held"});
    const StepRequest request{
        .arguments = phase_arguments(context.plan, {.layout = ranks,
                                                    .nodes = context.step_nodes(),
                                                    .mpi = context.mpi(),
                                                    .reads_input = true,
                                                    .patience = others_patience,
                                                    .command = std::move(command)}),
        .environment = in_container ? srun_environment(environment) : environment_of_bare_nodes(),
        .deadline = check_deadline(in_container),
        .held_tasks = ranks.processes};
    record::forget_reports(reports);
    auto result = context.steps.run(request);
    for (int tries = 1; tries < most_tries && worth_another_try(result); ++tries) {
        context.log.master("the server did not answer in time; the wire-up check is made again");
        record::forget_reports(reports);
        result = context.steps.run(request);
    }
    context.log.collect_traces();
    if (result && result->exit_code == 0) return {.result = std::move(result), .words = {}};
    std::string said = result ? result->messages : result.error().text() + "\n";
    auto words = words_of_wire_up(reports, context.files().refusals(step_name), ranks.processes,
                                  std::move(said));
    return {.result = std::move(result), .words = std::move(words)};
}

}  // namespace

bool WireUp::wanted(const Context& context) {
    const plan::Step* const ranks = context.main_step();
    if (ranks == nullptr || !ranks->pmix) return false;
    // With any other word of the site, each rank may take itself for the only one.
    const std::string mpi = context.mpi();
    const bool is_known = mpi == "pmi2" || mpi.starts_with("pmix");
    return !ranks->tells_bad_wiring || !is_known || context.plan.container.has_value();
}

PhaseEnd WireUp::run(Context& context) {
    const plan::Step ranks = context.main_step_here();
    expect_node_failures(context);
    bool in_container = context.plan.container.has_value();
    auto [result, words] = check(context, ranks, in_container);
    if (in_container && words.why_none && result && !result->stopped_by) {
        const std::string notice = fmt::format(
            "the wire-up check runs on the nodes, not in the container, and tells nothing of the "
            "image's PMIx: {}",
            *words.why_none);
        context.log.master(notice);
        std::printf("batchai: notice: %s\n", notice.c_str());
        std::fflush(stdout);
        in_container = false;
        auto again = check(context, ranks, in_container);
        result = std::move(again.result);
        words = std::move(again.words);
    }
    if (result && result->exit_code == 0) {
        context.log.master(fmt::format("{} wires {} ranks{}",
                                       context.mpi() == "pmi2" ? "PMI-2" : "PMIx", ranks.processes,
                                       in_container ? " in the container" : ""));
        return {};
    }
    const int step_code = result ? result->exit_code : 1;
    const std::string& said = words.said;
    context.logs.append_text(file_of_task(ranks.stderr_name, "0"), said);
    std::fputs(said.c_str(), stderr);
    auto ending = result ? ended_from_outside(context, *result, name) : std::nullopt;
    if (!ending) ending = node_failure(context, name);
    if (ending) return {.exit_code = step_code, .ending = std::move(ending)};
    if (auto start = result ? start_failure(*result, {.task = "rank"}, name) : std::nullopt) {
        start->may_start_again = true;
        return {.exit_code = step_code, .ending = std::move(start)};
    }
    int exit_code = step_code;
    if (const auto ends = bad_ends(said); !ends.empty())
        exit_code = exit_code_of(ends.front(), exit_code);
    WireUpFault fault = wire_up_fault(words, in_container);
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
