// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/walk.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/job_follow.hpp"
#include "job/syntax/utf8.hpp"
#include "plan/make.hpp"
#include "plan/slurm_options.hpp"
#include "record/job_files.hpp"
#include "status/job_view.hpp"
#include "status/sweep/view.hpp"
#include "submit/environment.hpp"
#include "submit/submission.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct JobCreateOptions {
    std::optional<std::string> name;  // absent: derived from the file's name
    user::ParentOptions parents;
    std::optional<std::string> cluster;
    std::optional<std::string> cluster_name;  // the name of the option before 2018-05-01
    submit::JobFileOptions file;
    bool dry_run = false;
    bool check = false;
    bool follow = false;
};

base::Arguments quoted(const std::vector<std::string>& words) {
    base::Arguments out;
    for (const auto& word : words)
        out.push_back(base::shell_quote(word));
    return out;
}

// Says for people where an option comes from.
std::string origin_of(const plan::SlurmOption& option) {
    switch (option.origin) {
        case plan::Origin::launcher:
            break;
        case plan::Origin::site:
            return "the site";
        case plan::Origin::vm_size:
            return "the cluster's VM size";
        case plan::Origin::user_config:
            return "config.toml";
        case plan::Origin::job_file:
            return fmt::format("the job file: {}", option.key.empty()
                                                       ? fmt::format("slurm.{}", option.name)
                                                       : std::string(option.key));
        case plan::Origin::flag:
            return "the command line";
        case plan::Origin::sbatch_words:
            return "the command line, after --";
    }
    return "batchai";
}

// Prints the points as comment lines.
void print_points(const plan::Sweep& sweep) {
    fmt::print("# The points of the sweep:\n");
    const std::string table = status::points_table(sweep);
    for (const std::string_view line : base::split(base::trim(table), '\n'))
        fmt::print("#   {}\n", line);
}

void print_dry_run(const submit::Submission& made) {
    const plan::Plan& plan = *made.plan;
    fmt::print("{}\n# The batch script, and how it would be submitted:\n# sbatch --parsable",
               made.json);
    for (const auto& word : quoted(plan::sbatch_options(plan)))
        fmt::print(" {}", word);
    fmt::print(" {}\n# Where the options of the allocation come from:\n",
               base::shell_quote(record::JobFiles(made.directory).batch_script().string()));
    for (const auto& option : plan::allocation_options(plan))
        fmt::print("#   {:<30} {}\n", job::printable(plan::argument_of(option)), origin_of(option));
    if (made.sweep) print_points(*made.sweep);
    fmt::print("{}", plan::batch_script(plan, submit::launcher_path(), made.digest));
}

bool is_array(const plan::Plan& plan) {
    const auto& options = plan.allocation.options;
    return std::any_of(options.begin(), options.end(),
                       [](const plan::SlurmOption& option) { return option.name == "array"; });
}

// Prints what Slurm says about the submission. Its refusal is the answer to a question, and not a
// refused request.
base::Result<void> check_with_slurm(const submit::Submission& made) {
    if (made.sweep) {
        auto size = status::check_array_size(made.slurm, *made.sweep);
        if (!size && size.error().exit_code == base::ExitCode::refused)
            size.error().exit_code = base::ExitCode::failed;
        TRY(size);
    }
    auto verdict = made.slurm.test_submission(
        plan::sbatch_options(*made.plan),
        plan::batch_script(*made.plan, submit::launcher_path(), made.digest),
        submit::submission_environment());
    if (!verdict) {
        if (verdict.error().exit_code == base::ExitCode::refused) {
            verdict.error().exit_code = base::ExitCode::failed;
            verdict.error().where = "sbatch --test-only";
        }
        return tl::unexpected(std::move(verdict).error());
    }
    fmt::print("# Slurm would take it: {}\n", *verdict);
    return {};
}

// Returns the job as it is right after submission. If Slurm does not answer, the error is returned
// and the Slurm job id is printed, because the submission itself has succeeded.
Answer created(const Context& here, const store::Job& job) {
    const auto view = status::view_job(here.store, here.slurm, job.key);
    if (!view) {
        say(fmt::format("submitted as Slurm job {}", job.slurm_job_id));
        return tl::unexpected(view.error());
    }
    return Outcome{status::to_value(*view), {}};
}

// Before 2018-05-01 the job file was -c and the cluster -r. A name of a file is not one of a
// cluster.
base::Result<JobCreateOptions> with_old_names(JobCreateOptions options) {
    const auto conflict = [](std::string what, std::string where) {
        return base::fail(std::move(what), std::move(where), "give one of them",
                          base::ExitCode::usage);
    };
    if (options.cluster && options.cluster->ends_with(".json")) {
        if (!options.file.path.empty())
            return conflict("is a job file, and --config-file names another", *options.cluster);
        say(fmt::format("{} is taken for the job file: -c is the cluster, and -f the file",
                        job::printable(*options.cluster)));
        options.file.path = std::move(*options.cluster);
        options.cluster.reset();
    }
    if (options.cluster_name) {
        if (options.cluster) return conflict("names a second cluster", "--cluster-name");
        options.cluster = std::move(options.cluster_name);
    }
    if (options.file.path.empty())
        return base::fail("--config-file is required", "",
                          "`batchai job create --help` shows how it is used",
                          base::ExitCode::usage);
    return options;
}

Answer job_create(const JobCreateOptions& given) {
    const JobCreateOptions options = TRY(with_old_names(given));
    const Context here = TRY(open_context());
    submit::Submission submission{
        .store = here.store,
        .site = here.site,
        .slurm = here.slurm,
        .goal = options.dry_run ? submit::Goal::shown : submit::Goal::submitted,
        .options = options.file,
        .name = options.name,
        .parents = options.parents,
        .cluster_name = options.cluster,
        .slurm_is_asked = options.check};
    TRY(submit::prepare(submission));
    base::print_error("{}", submit::messages(submission));
    if (!submission.is_sound())
        return Outcome{.exit_code = static_cast<int>(base::ExitCode::bad_job_file)};
    if (options.dry_run) {
        print_dry_run(submission);
        if (options.check) TRY(check_with_slurm(submission));
        return Outcome{};
    }
    if (options.follow && is_array(*submission.plan))
        return base::fail("an array job cannot be followed", "--follow",
                          "leave --follow out; `batchai job logs JOB --task NUMBER --follow` "
                          "follows one of its tasks",
                          base::ExitCode::usage);
    // From here on Ctrl-C must not end this program before it has said which job it has submitted.
    std::optional<Interruption> interruption;
    if (options.follow) interruption.emplace();
    TRY(submit::carry_out(submission));
    const store::Job& job = submission.job;
    if (!options.follow) {
        auto answer = created(here, job);
        submit::let_signals_come(submission);
        return answer;
    }
    submit::let_signals_come(submission);
    say(fmt::format("the job is \"{}\", submitted as Slurm job {}", job.key.job, job.slurm_job_id));
    return Outcome{.exit_code = TRY(follow_new_job(here, job))};
}

}  // namespace

const Verbs job_create_verbs("job", 10, [](CommandTree& tree, Parser group) {
    auto [leaf, options] =
        add_verb(tree, group, "create", "Submit a job",
                 "batchai job create --name train --cluster nc6 --config-file job.json\n"
                 "  batchai job create --config-file job.json --dry-run --check\n"
                 "  batchai job create -f job.json --partition gpu --mem 64G -- --switches=1\n"
                 "  batchai job create -f job.json --snapshot=. --watch PT10M\n"
                 "  batchai job create -f job.json --sweep lr=0.1,0.01 --sweep seed=1-8",
                 job_create);
    add_optional(leaf, "--name,-n", options->name, "Name of the job [the file's name]")
        .type_name("NAME")
        .group(resource_arguments);
    add_experiment_option(leaf, options->parents);
    add_optional(leaf, "--cluster,-c", options->cluster,
                 "Name or id of the cluster [the file's, else the site's default nodes]")
        .type_name("NAME");
    add_optional(leaf, "--cluster-name,-r", options->cluster_name, "The same as --cluster")
        .type_name("NAME")
        .group(old_names);
    leaf.add_option("--config-file,-f", options->file.path,
                    "job.json, which is required; - is standard input")
        .type_name("FILE");
    add_optional(leaf, "--storage-account-name", options->file.storage_account_name,
                 "Storage account of the file's placeholders and of --afs-name and --bfs-name "
                 "[$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        .type_name("NAME");
    add_optional(leaf, "--storage-account-key", options->file.storage_account_key,
                 "Its key, or @FILE; better given as $AZURE_BATCHAI_STORAGE_KEY")
        .type_name("KEY");
    const Option dry_run =
        leaf.add_flag("--dry-run", options->dry_run,
                      "Print the plan, the batch script, and where each option of Slurm comes "
                      "from; submit and change nothing");
    leaf.add_flag("--check", options->check,
                  "With --dry-run: ask Slurm when and where the job would start, or why not")
        .needs(dry_run);
    leaf.add_flag("--follow", options->follow,
                  "Show what the ranks print until the job ends, instead of the job's description, "
                  "and exit with its exit code; Ctrl-C asks whether to leave the job or to end it")
        .excludes(dry_run);
    add_slurm_options(leaf, options->file.slurm);
    leaf.add_option("sbatch-options", options->file.sbatch_words,
                    "After --: further options of sbatch, except those that the plan sets")
        .type_name("OPTION");
    add_optional(
        leaf, "--snapshot", options->file.snapshot,
        "Run the job from a copy of this directory that is made now [the file's, else that of "
        "the script]")
        .expected(0, 1)
        .type_name("DIR");
    leaf.add_option("--sweep", options->file.sweep,
                    "A parameter and its values, such as lr=0.1,0.01 or seed=1-8, besides those "
                    "of the file's \"sweep\"; may be repeated")
        .type_name("NAME=VALUES")
        .take_all();
    add_optional(leaf, "--sweep-max", options->file.sweep_max,
                 "How many points run at the same time at most [the file's, else all]")
        .type_name("NUMBER")
        .between(1, 10'000);
    add_optional(leaf, "--watch", options->file.watch,
                 "Show where the ranks are once they have printed and done nothing for this time "
                 "[the file's \"watch\"]")
        .type_name("TIME");
    add_image_options(leaf, options->file);
    add_volume_options(leaf, options->file.volumes, "the job has besides the file's",
                       "$AZ_BATCHAI_JOB_MOUNT_ROOT");
});

}  // namespace batchai::cli
