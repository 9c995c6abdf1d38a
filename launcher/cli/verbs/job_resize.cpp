// SPDX-License-Identifier: GPL-2.0-or-later
#include <string>

#include <fmt/format.h>

#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/named_job.hpp"
#include "plan/elastic.hpp"
#include "plan/plan_file.hpp"
#include "record/elastic_files.hpp"
#include "status/job_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct JobResizeOptions {
    user::JobName job;
    int nodes = 0;
};

// Leaves the request in the job's directory, where `batchai run` looks for it.
Answer job_resize(const JobResizeOptions& options) {
    const auto here = TRY(open_context());
    const auto view = TRY(status::view_job(here.store, here.slurm, user::job_key(options.job)));
    if (view.job.is_array)
        return refusal_for(view, "the tasks of an array job cannot be resized: not supported yet");
    const record::JobFiles files(here.store.job_files(view.job.key).directory());
    const auto plan = TRY(plan::read_plan(files.plan().string(), view.job.plan_digest, {}));
    const auto elastic = TRY(plan::elastic_of(plan.environment, plan.allocation.nodes));
    if (!elastic)
        return refusal_for(view, "the job is not elastic, so it keeps its nodes",
                           fmt::format("set {} in the job file", plan::elastic_nodes_variable));
    const auto& slurm = view.evidence.slurm;
    if (view.state != slurm::ExecutionState::running || !slurm || !view.attempt ||
        view.attempt->end)
        return refusal_for(
            view, fmt::format("the job is not running; it is {}", slurm::to_string(view.state)));
    const int present = static_cast<int>(slurm->nodes.size());
    if (options.nodes == present)
        return refusal_for(view, fmt::format("the job has {} nodes already", present));
    if (options.nodes > present)
        return refusal_for(
            view,
            fmt::format("Slurm cannot give more nodes to a job that runs; the job has {}", present),
            fmt::format("\"scontrol requeue {}\" starts it again with all its {} nodes, from its "
                        "last commit",
                        slurm->id, plan.allocation.all_nodes()));
    if (options.nodes < elastic->least_nodes)
        return refusal_for(view, fmt::format("the job needs {} nodes ({})", elastic->least_nodes,
                                             plan::elastic_nodes_variable));
    TRY(record::write_resize_request(files,
                                     {.attempt = view.attempt->number, .nodes = options.nodes}));
    say(fmt::format("the job keeps {} of its {} nodes after its next commit", options.nodes,
                    present));
    return Outcome{};
}

}  // namespace

const Verbs job_resize_verbs("job", 130, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(
        tree, job, "resize",
        "Give back nodes of an elastic job that runs; it goes on with the others after its next "
        "commit",
        "batchai job resize --name train --nodes 3", job_resize);
    add_job_options(leaf, options->job, "--name,-n");
    leaf.add_option("--nodes", options->nodes, "How many nodes the job keeps")
        .type_name("COUNT")
        .positive()
        .required();
});

}  // namespace batchai::cli
