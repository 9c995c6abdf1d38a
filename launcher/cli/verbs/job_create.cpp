// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/tree/walk.hpp"
#include "cli/verbs/job_follow.hpp"
#include "cli/verbs/surroundings.hpp"
#include "job/syntax/utf8.hpp"
#include "job/to_json.hpp"
#include "plan/make.hpp"
#include "plan/slurm_options.hpp"
#include "record/job_files.hpp"
#include "status/job_view.hpp"
#include "status/sweep/view.hpp"
#include "store/records.hpp"
#include "submit/held_job.hpp"
#include "submit/planning.hpp"
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

base::Result<store::JobKey> choose_key(const JobCreateOptions& options, const store::Store& store) {
    const auto parent = user::experiment_key(options.parents);
    store::JobKey key{parent.group, parent.workspace, parent.experiment, ""};
    if (options.name) {
        key.job = *options.name;
    } else {
        const auto stem = submit::job_name_from_file(options.file.path);
        key.job = stem;
        // A derived name that is taken gets a number, so that a second run of the same file works.
        for (int number = 2; !options.dry_run && store.job(key); ++number)
            key.job = fmt::format("{}-{}", stem, number);
    }
    for (const auto& [kind, name] : {std::pair(store::Kind::group, key.group),
                                     std::pair(store::Kind::workspace, key.workspace),
                                     std::pair(store::Kind::experiment, key.experiment),
                                     std::pair(store::Kind::job, key.job)}) {
        TRY(store::check_name(kind, name));
    }
    return key;
}

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

void print_dry_run(const submit::Planned& planned, const record::JobFiles& files) {
    fmt::print("{}\n# The batch script, and how it would be submitted:\n# sbatch --parsable",
               planned.json);
    for (const auto& word : quoted(plan::sbatch_options(planned.plan)))
        fmt::print(" {}", word);
    fmt::print(" {}\n# Where the options of the allocation come from:\n",
               base::shell_quote(files.batch_script().string()));
    for (const auto& option : plan::allocation_options(planned.plan))
        fmt::print("#   {:<30} {}\n", job::printable(plan::argument_of(option)), origin_of(option));
    if (planned.sweep) print_points(*planned.sweep);
    fmt::print("{}", plan::batch_script(planned.plan, submit::launcher_path(), planned.digest));
}

// Returns the value of the option "array", if the plan has it.
std::optional<std::string> array_of(const plan::Plan& plan) {
    for (const plan::SlurmOption& option : plan.allocation.options) {
        if (option.name == "array") return option.value;
    }
    return std::nullopt;
}

store::Job record_of(const store::JobKey& key, const submit::Planned& planned,
                     std::string slurm_job_id) {
    const auto& identity = planned.plan.identity;
    store::Job job;
    job.key = key;
    job.uuid = identity.uuid;
    job.subscription = identity.subscription;
    if (planned.cluster) job.set_cluster(*planned.cluster);
    job.tool_type = planned.plan.tool_type;
    job.node_count = planned.plan.allocation.nodes;
    job.properties = job::to_json(planned.spec);
    job.plan_digest = planned.digest;
    job.slurm_job_id = std::move(slurm_job_id);
    const auto array = array_of(planned.plan);
    job.is_array = array.has_value();
    job.array = array.value_or("");
    job.creation_time = base::now();
    return job;
}

// Prints what Slurm says about the submission. Its refusal is the answer to a question, and not a
// refused request.
base::Result<void> check_with_slurm(const Surroundings& here, const submit::Planned& planned) {
    if (planned.sweep) {
        auto size = status::check_array_size(here.slurm, *planned.sweep);
        if (!size && size.error().exit_code == base::ExitCode::refused)
            size.error().exit_code = base::ExitCode::failed;
        TRY(size);
    }
    auto verdict = here.slurm.test_submission(
        plan::sbatch_options(planned.plan),
        plan::batch_script(planned.plan, submit::launcher_path(), planned.digest),
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

base::Result<store::Job> submit(const Surroundings& here, const store::JobKey& key,
                                const submit::Planned& planned) {
    const base::HeldSignals held{submit::signals_held_for_submission};
    auto reservation = TRY(here.store.reserve(key, [&](const record::JobFiles& left) {
        return submit::end_unrecorded_job(here.slurm, left);
    }));
    const auto& files = reservation.files();
    // An interrupt while a snapshot is copied leaves nothing behind.
    const auto go_on = [&]() -> base::Result<void> {
        if (held.next()) return base::fail("interrupted before the job was submitted");
        return reservation.refresh();
    };
    TRY(submit::write_plan(files.directory().string(), planned, go_on));
    TRY(base::write_atomically(
        files.batch_script(),
        plan::batch_script(planned.plan, submit::launcher_path(), planned.digest), 0700));
    TRY(go_on());
    store::Job job;
    TRY(submit::submit_and_record(here.slurm, planned.plan, files.batch_script().string(), held,
                                  [&](const std::string& id) {
                                      job = record_of(key, planned, id);
                                      return reservation.commit(job);
                                  }));
    return job;
}

// Returns the job as it is right after submission. If Slurm does not answer, the error is returned
// and the Slurm job id is printed, because the submission itself has succeeded.
Answer created(const Surroundings& here, const store::Job& job) {
    const auto report = status::report_job(here.store, here.slurm, job.key);
    if (!report) {
        say(fmt::format("submitted as Slurm job {}", job.slurm_job_id));
        return tl::unexpected(report.error());
    }
    return Outcome{status::to_value(*report), {}};
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
    const Surroundings here = TRY(open_surroundings());
    const store::JobKey key = TRY(choose_key(options, here.store));
    if (!options.dry_run && here.store.job(key)) {
        return base::fail(
            "A job with given name, experiment, workspace and resource group already exists.", "",
            fmt::format("`batchai job show --name {}` says how far it is; choose another name, or "
                        "delete it first",
                        key.job),
            base::ExitCode::refused);
    }
    // Nothing is created and no image is resolved while Slurm cannot take the job.
    if (!options.dry_run || options.check) TRY(here.slurm.ping());
    const submit::JobText text = TRY(submit::read_job_file(options.file.path));
    const plan::Identity identity{.subscription = here.site.subscription,
                                  .resource_group = key.group,
                                  .workspace = key.workspace,
                                  .experiment = key.experiment,
                                  .job = key.job,
                                  .cluster = {},
                                  .uuid = options.dry_run ? submit::no_uuid : base::random_uuid()};
    const auto files = here.store.job_files(key);
    const submit::PlanningChoices choices{.cluster = options.cluster,
                                          .cluster_must_exist = !options.dry_run || options.check,
                                          .image = options.dry_run
                                                       ? submit::ImageQuestion::without_network
                                                       : submit::ImageQuestion::registry};
    const auto planning = TRY(submit::plan_job(here.store, here.site, text, options.file, choices,
                                               identity, files.directory().string()));
    fmt::print(stderr, "{}", planning.report);
    if (!planning.planned)
        return Outcome{.exit_code = static_cast<int>(base::ExitCode::bad_job_file)};
    if (options.dry_run) {
        print_dry_run(*planning.planned, files);
        if (options.check) TRY(check_with_slurm(here, *planning.planned));
        return Outcome{};
    }
    if (options.follow && array_of(planning.planned->plan))
        return base::fail("an array job cannot be followed", "--follow",
                          "leave --follow out; `batchai job logs JOB --task NUMBER --follow` "
                          "follows one of its tasks",
                          base::ExitCode::usage);
    if (planning.planned->sweep)
        TRY(status::check_array_size(here.slurm, *planning.planned->sweep));
    TRY(user::ensure_experiment(here.store, here.site, options.parents));
    if (!options.follow) return created(here, TRY(submit(here, key, *planning.planned)));
    // From here on Ctrl-C must not end this program before it has said which job it has submitted.
    const Interruption interruption;
    const store::Job job = TRY(submit(here, key, *planning.planned));
    say(fmt::format("the job is \"{}\", submitted as Slurm job {}", key.job, job.slurm_job_id));
    return Outcome{.exit_code = TRY(follow_new_job(here, job))};
}

}  // namespace

void add_job_create_verb(CommandTree& tree, CLI::App& group) {
    auto [leaf, options] =
        add_verb(tree, group, "create", "Submit a job",
                 "batchai job create --name train --cluster nc6 --config-file job.json\n"
                 "  batchai job create --config-file job.json --dry-run --check\n"
                 "  batchai job create -f job.json --partition gpu --mem 64G -- --switches=1\n"
                 "  batchai job create -f job.json --snapshot=.\n"
                 "  batchai job create -f job.json --sweep lr=0.1,0.01 --sweep seed=1-8",
                 job_create);
    add_optional(*leaf, "--name,-n", options->name, "Name of the job [the file's name]")
        ->type_name("NAME")
        ->group(resource_arguments);
    add_experiment_option(*leaf, options->parents);
    add_optional(*leaf, "--cluster,-c", options->cluster,
                 "Name or id of the cluster [the file's, else the site's default nodes]")
        ->type_name("NAME");
    add_optional(*leaf, "--cluster-name,-r", options->cluster_name, "The same as --cluster")
        ->type_name("NAME")
        ->group(old_names);
    leaf->add_option("--config-file,-f", options->file.path,
                     "job.json, which is required; - is standard input")
        ->type_name("FILE");
    add_optional(*leaf, "--storage-account-name", options->file.storage_account_name,
                 "Storage account of the file's placeholders and of --afs-name and --bfs-name "
                 "[$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        ->type_name("NAME");
    add_optional(*leaf, "--storage-account-key", options->file.storage_account_key,
                 "Its key, or @FILE; better given as $AZURE_BATCHAI_STORAGE_KEY")
        ->type_name("KEY");
    auto* const dry_run =
        leaf->add_flag("--dry-run", options->dry_run,
                       "Print the plan, the batch script, and where each option of Slurm comes "
                       "from; submit and change nothing");
    leaf->add_flag("--check", options->check,
                   "With --dry-run: ask Slurm when and where the job would start, or why not")
        ->needs(dry_run);
    leaf->add_flag(
            "--follow", options->follow,
            "Show what the ranks print until the job ends, instead of the job's description, "
            "and exit with its exit code; Ctrl-C asks whether to leave the job or to end it")
        ->excludes(dry_run);
    add_slurm_options(*leaf, options->file.slurm);
    leaf->add_option("sbatch-options", options->file.sbatch_words,
                     "After --: further options of sbatch, except those that the plan sets")
        ->type_name("OPTION");
    leaf->add_option_function<std::string>(
            "--snapshot",
            [file = &options->file](const std::string& given) { file->snapshot = given; },
            "Run the job from a copy of this directory that is made now [the file's, else that of "
            "the script]")
        ->expected(0, 1)
        ->type_name("DIR");
    leaf->add_option("--sweep", options->file.sweep,
                     "A parameter and its values, such as lr=0.1,0.01 or seed=1-8, besides those "
                     "of the file's \"sweep\"; may be repeated")
        ->type_name("NAME=VALUES")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    add_optional(*leaf, "--sweep-max", options->file.sweep_max,
                 "How many points run at the same time at most [the file's, else all]")
        ->type_name("NUMBER")
        ->check(CLI::Range(1, 10'000));
    add_image_options(*leaf, options->file);
    add_volume_options(*leaf, options->file.volumes, "the job has besides the file's",
                       "$AZ_BATCHAI_JOB_MOUNT_ROOT");
}

}  // namespace batchai::cli
