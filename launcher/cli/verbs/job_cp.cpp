// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <utility>

#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_shell.hpp"
#include "status/output_directory.hpp"
#include "user/parents.hpp"
#include "visit/copy.hpp"
#include "visit/visit.hpp"

namespace batchai::cli {
namespace {

struct JobCpOptions {
    std::string source;
    std::string target;
    user::ParentOptions parents;
    std::optional<int> task;  // of an array job
    visit::NodeChoice place;
    bool recursive = false;
};

Answer job_cp(const JobCpOptions& options) {
    const visit::CopySide source = visit::copy_side(options.source);
    const visit::CopySide target = visit::copy_side(options.target);
    if (source.job.has_value() == target.job.has_value())
        return base::fail(source.job ? "files cannot be copied from one job to another"
                                     : "neither side is one of a job",
                          "batchai job cp", "write one of the two as JOB:PATH",
                          base::ExitCode::usage);
    const visit::CopySide& there = source.job ? source : target;
    const store::JobKey key = user::job_key({.job = *there.job, .parents = options.parents});
    const auto here = TRY(open_context());
    const auto view = TRY(status::view_job(here.store, here.slurm, key, options.task));
    const auto plan = TRY(status::plan_of_job(here.store, key));
    auto path = TRY(visit::node_path(there.path, plan));
    if (view.ended()) return tl::unexpected(visit::gone_with_the_job(view, plan, path));
    const auto running = TRY(visit::running_job(here.store, view));
    auto place = TRY(visit::choose_node(running, options.place));
    visit::say_which_node(running, options.place, place.node);
    const visit::CopyWish wish{.place = std::move(place),
                               .there = std::move(path),
                               .here = source.job ? target.path : source.path,
                               .recursive = options.recursive};
    return Outcome{.exit_code = TRY(source.job ? visit::copy_from_node(running, wish)
                                               : visit::copy_to_node(running, wish))};
}

}  // namespace

const Verbs job_cp_verbs("job", 110, [](CommandTree& tree, Parser job) {
    auto [leaf, options] = add_verb(
        tree, job, "cp", "Copy files from or to a node of a running job, as its processes see them",
        "batchai job cp 'train:$AZ_BATCHAI_JOB_TEMP/trace.json' .\n"
        "  batchai job cp -r train:/tmp/profile profile --rank 3\n"
        "  batchai job cp settings.json 'train:$AZ_BATCHAI_JOB_TEMP/'",
        job_cp, Printing::by_itself);
    leaf.add_option("source", options->source,
                    "What to copy: a path of this host, or JOB:PATH for one of the job's node. "
                    "The node expands $AZ_BATCHAI_… in it")
        .type_name("SOURCE")
        .required();
    leaf.add_option("target", options->target, "Where to: a path of the other side")
        .type_name("TARGET")
        .required();
    add_experiment_option(leaf, options->parents);
    add_task_option(leaf, options->task, "One task of an array job [the first that runs]");
    add_node_choice(leaf, options->place);
    leaf.add_flag("--recursive,-r", options->recursive,
                  "Copy directories with all that is in them");
});

}  // namespace batchai::cli
