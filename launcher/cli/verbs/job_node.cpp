// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/network.hpp"
#include "base/process.hpp"
#include "cli/output/output.hpp"
#include "cli/report/job_report.hpp"
#include "cli/report/names.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/surroundings.hpp"
#include "record/job_files.hpp"
#include "record/step_variables.hpp"
#include "run/srun/srun_arguments.hpp"
#include "slurm/client.hpp"
#include "spank/protocol.h"
#include "store/records.hpp"

namespace batchai::cli {
namespace {

struct JobNodeOptions {
    JobName job;
    std::optional<std::string> node;     // absent: the first
    std::optional<std::string> command;  // absent: a shell
    bool terminal = false;
    // Accepted for compatibility with the Azure CLI, but without effect: nodes are not reached by
    // SSH.
    std::optional<std::string> password;
    std::optional<std::string> ssh_private_key;
};

using Names = std::vector<std::string>;

bool is_running(const JobReport& report) {
    const auto& slurm = report.evidence.slurm;
    return report.state == slurm::ExecutionState::running && slurm &&
           slurm->state == slurm::JobState::running && !slurm->nodes.empty();
}

// The message includes Slurm's state, because a job that is suspended or being configured is
// "running" for Batch AI.
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

// Returns this process's environment without the variables that an enclosing step of Slurm or of
// this program has set, plus the variables of the job's own steps.
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
            BATCHAI_DISABLE_VARIABLE "=",  BATCHAI_IDENTITY_VARIABLE "=",
            BATCHAI_MASTER_VARIABLE "=",   BATCHAI_PROOF_VARIABLE "=",
            BATCHAI_JOB_JSON_VARIABLE "=", BATCHAI_JOB_IMAGE_VARIABLE "="};
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

// Replaces this process by the command. Returns only if that fails.
Answer become(base::Arguments arguments, base::Environment environment) {
    std::fflush(stdout);
    std::fflush(stderr);
    return tl::unexpected(
        base::become({.arguments = std::move(arguments),
                      .environment = std::move(environment),
                      .signals = base::Signals::inherited,
                      .missing_hint = "is Slurm's client package installed on this host?"}));
}

// Lists the nodes of a running job. The list is empty for any other job.
Answer job_node_list(const JobNodeOptions& options) {
    const auto here = TRY(open_surroundings());
    const auto report = TRY(report_job(here.store, here.slurm, job_key(options.job)));
    Value::Array nodes;
    if (is_running(report)) {
        for (const std::string& name : report.evidence.slurm->nodes)
            nodes.emplace_back(Value::Object{
                {"ipAddress", base::address_of(name)}, {"nodeId", name}, {"port", nullptr}});
    }
    return Outcome{std::move(nodes), node_columns};
}

// Runs a command or a shell on one node of a running job, with the job's container, mounts and
// variables. srun replaces this process, so that the terminal, the signals and the exit code are
// the command's. Returns only if that fails.
Answer job_node_exec(const JobNodeOptions& options) {
    const bool has_terminal = isatty(STDIN_FILENO) != 0;
    if (options.terminal && !has_terminal)
        return base::fail("standard input is not a terminal", "--pty", {}, base::ExitCode::usage);
    const auto here = TRY(open_surroundings());
    const auto report = TRY(report_job(here.store, here.slurm, job_key(options.job)));
    if (!is_running(report)) return tl::unexpected(not_running(report));
    const auto node = TRY(choose_node(report.evidence.slurm->nodes, options.node));
    const auto directory = here.store.job_files(job_key(options.job)).directory().string();
    const bool terminal = options.terminal || (!options.command && has_terminal);
    return become(run::visit_arguments({report.job.slurm_job_id, node, options.command, terminal}),
                  visit_environment(report.job, record::JobFiles(directory)));
}

}  // namespace

void add_job_node_verbs(CommandTree& tree, CLI::App& job) {
    auto& group = *add_group(job, "node", "List and enter the nodes of a job that runs");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the nodes of a job that runs",
                     "batchai job node list --job train --output table", job_node_list);
        add_job_options(*leaf, options->job);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "exec",
            "Run a command, or a shell, where a running job runs: with its container, volumes and "
            "variables",
            "batchai job node exec --job train\n"
            "  batchai job node exec --job train --node-id n2 --exec 'nvidia-smi; df -h'",
            job_node_exec, Printing::by_itself);
        add_job_options(*leaf, options->job);
        add_optional(*leaf, "--node-id,--node,-n", options->node, "Node of the job [the first]")
            ->type_name("NODE");
        add_optional(*leaf, "--exec", options->command,
                     "Command for the shell; its exit code is returned [an interactive shell]")
            ->type_name("COMMAND");
        leaf->add_flag("--pty,-t", options->terminal,
                       "Give the command a terminal, as an interactive shell has");
        const std::string note = " (accepted; the node is reached through Slurm, not by SSH)";
        add_optional(*leaf, "--password,-p", options->password, "Password" + note)
            ->type_name("TEXT");
        add_optional(*leaf, "--ssh-private-key,-k", options->ssh_private_key,
                     "File of the SSH key" + note)
            ->type_name("FILE");
    }
}

}  // namespace batchai::cli
