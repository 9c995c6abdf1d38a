// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/job_node.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/network.hpp"
#include "cli/report/job_report.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/verbs/surroundings.hpp"
#include "record/job_files.hpp"
#include "record/step_variables.hpp"
#include "run/srun/srun_arguments.hpp"
#include "slurm/client.hpp"
#include "spank/protocol.h"

namespace batchai::cli {
namespace {

using Names = std::vector<std::string>;

bool is_running(const JobReport& report) {
    const auto& slurm = report.evidence.slurm;
    return report.state == slurm::ExecutionState::running && slurm &&
           slurm->state == slurm::JobState::running && !slurm->nodes.empty();
}

// Slurm's own word, too: a job that is suspended or being configured is "running" for Batch AI.
base::Error not_running(const JobReport& report) {
    std::string state(slurm::to_string(report.state));
    if (const auto& slurm = report.evidence.slurm) {
        state += fmt::format(" (Slurm job {}: {}{}{})", slurm->id, slurm->state_text,
                             slurm->reason.empty() ? "" : ", ", slurm->reason);
    }
    return {fmt::format("the job is not running, so there is nothing to enter: it is {}", state),
            report.job.key.job,
            {},
            base::ExitCode::failed};
}

base::Result<std::string> choose_node(const Names& nodes, const std::optional<std::string>& name) {
    if (!name) return nodes.front();
    if (std::find(nodes.begin(), nodes.end(), *name) != nodes.end()) return *name;
    return base::fail(fmt::format("Cannot find a node with id={}", *name), {},
                      fmt::format("the job's nodes are {}", fmt::join(nodes, ", ")),
                      base::ExitCode::not_found);
}

// Ours, but for what an enclosing step of Slurm or of this program set for itself, and over it what
// the job's own steps have.
base::Environment visit_environment(const store::Job& job, const record::JobFiles& files) {
    base::Environment additions{
        fmt::format("{}={}", BATCHAI_PLAN_VARIABLE, files.plan().string()),
        fmt::format("{}={}", BATCHAI_DIGEST_VARIABLE, job.plan_digest),
        fmt::format("{}={}", BATCHAI_RANK_VARIABLES_VARIABLE, BATCHAI_NO_RANKS)};
    if (const auto of_steps = record::read_step_variables(files)) {
        additions.insert(additions.end(), of_steps->begin(), of_steps->end());
    } else {
        say("warning: AZ_BATCH_HOST_LIST and the other variables of the job's nodes are not set: " +
            of_steps.error().text());
    }
    const auto is_replaced = [&](const std::string& entry) {
        constexpr std::array<std::string_view, 6> of_steps_elsewhere{
            BATCHAI_DISABLE_VARIABLE "=", BATCHAI_IDENTITY_VARIABLE "=",
            BATCHAI_MASTER_VARIABLE "=",  BATCHAI_PROOF_VARIABLE "=",
            "BATCHAI_JOB_JSON=",          "BATCHAI_JOB_IMAGE="};
        const std::string_view name = std::string_view(entry).substr(0, entry.find('=') + 1);
        const auto starts = [&](std::string_view other) { return other.starts_with(name); };
        return entry.starts_with("_SLURM_SPANK_OPTION") ||
               std::find(of_steps_elsewhere.begin(), of_steps_elsewhere.end(), name) !=
                   of_steps_elsewhere.end() ||
               std::any_of(additions.begin(), additions.end(), starts);
    };
    base::Environment environment = slurm::scrubbed_environment();
    environment.erase(std::remove_if(environment.begin(), environment.end(), is_replaced),
                      environment.end());
    environment.insert(environment.end(), additions.begin(), additions.end());
    return environment;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> out;
    out.reserve(words.size() + 1);
    for (std::string& word : words)
        out.push_back(word.data());
    out.push_back(nullptr);
    return out;
}

// Returns only when it fails.
Answer become(base::Arguments arguments, base::Environment environment) {
    std::fflush(stdout);
    std::fflush(stderr);
    execvpe(arguments.front().c_str(), pointers(arguments).data(), pointers(environment).data());
    return base::fail(fmt::format("cannot be started: {}", std::strerror(errno)), arguments.front(),
                      "is Slurm's client package installed on this host?");
}

}  // namespace

Answer job_node_list(const JobNodeOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto report = report_job(here->store, here->slurm, options.key());
    if (!report) return tl::unexpected(report.error());
    Value::Array nodes;
    if (is_running(*report)) {
        for (const std::string& name : report->evidence.slurm->nodes)
            nodes.emplace_back(Value::Object{
                {"ipAddress", base::address_of(name)}, {"nodeId", name}, {"port", nullptr}});
    }
    return Outcome{std::move(nodes), node_columns};
}

Answer job_node_exec(const JobNodeOptions& options) {
    const bool has_terminal = isatty(STDIN_FILENO) != 0;
    if (options.terminal && !has_terminal)
        return base::fail("standard input is not a terminal", "--pty", {}, base::ExitCode::usage);
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto report = report_job(here->store, here->slurm, options.key());
    if (!report) return tl::unexpected(report.error());
    if (!is_running(*report)) return tl::unexpected(not_running(*report));
    const auto node = choose_node(report->evidence.slurm->nodes, options.node);
    if (!node) return tl::unexpected(node.error());
    const auto directory = here->store.job_files(options.key()).directory().string();
    const bool terminal = options.terminal || (!options.command && has_terminal);
    return become(
        run::visit_arguments({report->job.slurm_job_id, *node, options.command, terminal}),
        visit_environment(report->job, record::JobFiles(directory)));
}

}  // namespace batchai::cli
