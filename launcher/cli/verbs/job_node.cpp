// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/output/output.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_shell.hpp"
#include "slurm/node_addresses.hpp"
#include "status/job_view.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"
#include "visit/forward.hpp"
#include "visit/visit.hpp"

namespace batchai::cli {
namespace {

struct JobNodeOptions {
    user::JobName job;
    std::optional<int> task;             // of an array job
    std::optional<std::string> node;     // absent: that of rank 0
    std::optional<std::string> command;  // absent: a shell
    bool terminal = false;
    std::vector<std::string> addresses;  // "HERE:localhost:THERE"
    // Accepted for compatibility with the Azure CLI, but without effect: nodes are not reached by
    // SSH.
    std::optional<std::string> password;
    std::optional<std::string> ssh_private_key;
};

// Lists the nodes of a running job. The list is empty for any other job.
Answer job_node_list(const JobNodeOptions& options) {
    const auto here = TRY(open_context());
    const auto view =
        TRY(status::view_job(here.store, here.slurm, user::job_key(options.job), options.task));
    Value::Array nodes;
    if (visit::is_running(view)) {
        const std::vector<std::string>& names = view.evidence.slurm->nodes;
        const auto addresses = slurm::addresses_of(names);
        for (std::size_t i = 0; i < names.size(); ++i)
            nodes.emplace_back(Value::Object{
                {"ipAddress", addresses[i]}, {"nodeId", names[i]}, {"port", nullptr}});
    }
    return Outcome{std::move(nodes), status::node_columns};
}

// Forwards ports as Batch AI's -L does.
Answer forward_addresses(const JobNodeOptions& options) {
    if (options.command || options.terminal)
        return base::fail("--exec and --address together are not supported yet", "job node exec",
                          "use two commands", base::ExitCode::usage);
    std::vector<visit::PortWish> wishes;
    for (const std::string& address : options.addresses)
        wishes.push_back(TRY(visit::port_wish_of_address(address)));
    const auto here = TRY(open_context());
    const auto running =
        TRY(visit::running_job(here.store, here.slurm, user::job_key(options.job), options.task));
    const auto place = TRY(visit::choose_node(running, {.node = options.node, .rank = {}}));
    return Outcome{.exit_code = TRY(
                       visit::forward_ports(here.store, here.slurm, running, place.node, wishes))};
}

// Runs a command or a shell on one node of a running job, with the job's container, mounts and
// variables.
Answer job_node_exec(const JobNodeOptions& options) {
    if (!options.addresses.empty()) return forward_addresses(options);
    const bool has_terminal = isatty(STDIN_FILENO) != 0;
    if (options.terminal && !has_terminal)
        return base::fail("standard input is not a terminal", "--pty", {}, base::ExitCode::usage);
    const auto here = TRY(open_context());
    const auto running =
        TRY(visit::running_job(here.store, here.slurm, user::job_key(options.job), options.task));
    const auto place = TRY(visit::choose_node(running, {.node = options.node, .rank = {}}));
    return visit(here, running, place,
                 {.command = options.command,
                  .terminal = options.terminal || (!options.command && has_terminal)});
}

}  // namespace

const Verbs job_node_verbs("job", 120, [](CommandTree& tree, Parser job) {
    const Parser group = add_group(job, "node", "List and enter the nodes of a job that runs");
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the nodes of a job that runs",
                     "batchai job node list --job train --output table", job_node_list);
        add_job_options(leaf, options->job);
        add_task_option(leaf, options->task, "One task of an array job [the first that runs]");
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "exec",
            "Run a command, or a shell, where a running job runs: with its container, volumes and "
            "variables",
            "batchai job node exec --job train\n"
            "  batchai job node exec --job train --node-id n2 --exec 'nvidia-smi; df -h'",
            job_node_exec, Printing::by_itself_as_az);
        add_job_options(leaf, options->job);
        add_task_option(leaf, options->task, "One task of an array job [the first that runs]");
        add_optional(leaf, "--node-id,--node,-n", options->node, "Node of the job [that of rank 0]")
            .type_name("NODE");
        add_optional(leaf, "--exec", options->command,
                     "Command for the shell; its exit code is returned [an interactive shell]")
            .type_name("COMMAND");
        leaf.add_flag("--pty,-t", options->terminal,
                      "Give the command a terminal, as an interactive shell has");
        const std::string note = " (accepted; the node is reached through Slurm, not by SSH)";
        add_optional(leaf, "--password,-p", options->password, "Password" + note).type_name("TEXT");
        add_optional(leaf, "--ssh-private-key,-k", options->ssh_private_key,
                     "File of the SSH key" + note)
            .type_name("FILE");
        leaf.add_option("--address,-L", options->addresses,
                        "Port of this host that leads to a port of the node, instead of a "
                        "command; can be given again. `batchai job port` has more choice")
            .type_name("PORT:localhost:PORT")
            .take_all();
    }
});

}  // namespace batchai::cli
