// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/record.hpp"
#include "base/timestamp.hpp"
#include "base/utf8.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/named_job.hpp"
#include "visit/stacks.hpp"
#include "visit/stacks/groups.hpp"
#include "visit/stacks/nccl_text.hpp"
#include "visit/stacks/suspect.hpp"
#include "visit/visit.hpp"

namespace batchai::cli {
namespace {

struct JobStacksOptions {
    NamedJob job;
    std::optional<std::string> node;
    std::optional<int> rank;
    visit::StacksWanted wanted;
    Option output;
    Option query;
};

Value to_value(const visit::RunningJob& running, base::Time time, const run::StacksFound& found,
               const std::vector<visit::StackGroup>& groups) {
    Value::Array missing;
    for (const auto& [node, why] : found.missing)
        missing.emplace_back(Value::Object{{"node", node}, {"why", why}});
    return Value::Object{
        {"name", running.job.key.job},          {"slurmJobId", running.slurm_id},
        {"time", base::to_iso8601(time)},       {"groups", base::to_value(groups)},
        {"nodes", base::to_value(found.nodes)}, {"missing", Value(std::move(missing))}};
}

base::Result<std::vector<std::string>> nodes_to_ask(const visit::RunningJob& running,
                                                    const JobStacksOptions& options) {
    if (!options.node) return running.nodes;
    const auto chosen = TRY(visit::choose_node(running, {.node = options.node, .rank = {}}));
    return std::vector{chosen.node};
}

// Where the ranks of some nodes only are known, nobody can say which ones have not come. And who
// asks for one rank wants to see that.
std::string frameworks_text(const visit::RunningJob& running, const run::StacksFound& found,
                            const JobStacksOptions& options) {
    if (options.rank || found.nodes.size() != running.nodes.size()) return {};
    const std::string text = visit::frameworks_text(found.nodes);
    return text.empty() ? text : text + '\n';
}

Answer job_stacks(const JobStacksOptions& options) {
    const auto named = TRY(key_of(options.job, "stacks"));
    const auto here = TRY(open_context());
    const auto running = TRY(visit::running_job(here.store, here.slurm, named.key, named.task));
    const auto nodes = TRY(nodes_to_ask(running, options));
    const base::Time time = base::now();
    const auto found = TRY(visit::ask_for_stacks(running, nodes, options.wanted));
    if (!found) return Outcome{.exit_code = 130};
    for (const auto& [node, why] : found->missing)
        warn(fmt::format("{}: {}", node, why));
    const auto groups = visit::stack_groups(found->nodes, options.rank);
    const int code = found->missing.empty() ? 0 : static_cast<int>(base::ExitCode::failed);
    if (groups.empty() && options.rank && found->missing.empty())
        return base::fail(fmt::format("found no process of rank {}", *options.rank),
                          running.job.key.job, "leave out --rank to see which ranks there are",
                          base::ExitCode::not_found);
    if (options.output.count() > 0 || options.query.count() > 0) {
        const auto columns = [](const Value& shown) {
            return generic_table(shown["groups"], false);
        };
        return Outcome{.value = to_value(running, time, *found, groups),
                       .columns = columns,
                       .exit_code = code};
    }
    if (groups.empty()) {
        say("found no processes of the job's steps: the job is still preparing its nodes, or its "
            "ranks have ended");
        return Outcome{.exit_code = code};
    }
    const std::string text = fmt::format(
        "{}  {}  Slurm job {}\n\n{}{}{}", base::to_iso8601_seconds(time), running.job.key.job,
        running.slurm_id, frameworks_text(running, *found, options), visit::stacks_text(groups),
        options.rank ? std::string() : visit::nccl_text(found->nodes));
    return Outcome{.exit_code = print_bytes(text) ? code : 1};
}

}  // namespace

const Verbs job_stacks_verbs("job", 55, [](CommandTree& tree, Parser job) {
    auto [leaf, options] =
        add_verb(tree, job, "stacks",
                 "Show where the ranks of a running job are: the stacks of Python, or of C and "
                 "C++, and what the kernel says. Ranks at the same place are grouped",
                 "batchai job stacks train\n"
                 "  batchai job stacks train --rank 7 --threads\n"
                 "  batchai job stacks train --output json --query 'groups[].where'",
                 job_stacks);
    add_named_job(leaf, options->job);
    const Option node =
        add_optional(leaf, "--node", options->node, "Only this node of the job").type_name("NODE");
    add_optional(leaf, "--rank", options->rank, "Only this rank")
        .type_name("NUMBER")
        .non_negative()
        .excludes(node);
    leaf.add_flag("--threads", options->wanted.all_threads,
                  "Show the other threads, too. Each of them is interrupted for a moment");
    leaf.add_flag("--native", options->wanted.native,
                  "Show stacks of C and C++ also of processes that run Python, which are stopped "
                  "for a moment");
    options->output = leaf.get_option("--output");
    options->query = leaf.get_option("--query");
});

}  // namespace batchai::cli
