// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/hand_over.hpp"

#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "cli/output/output.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/surroundings.hpp"
#include "plan/slurm_options.hpp"
#include "record/job_files.hpp"
#include "spank/protocol.h"
#include "submit/image.hpp"

namespace batchai::cli {

namespace {

namespace fs = std::filesystem;

plan::Identity identity_of(const submit::JobFileOptions& file, const site::Site& site,
                           std::string uuid) {
    const auto parent = user::experiment_key({});
    return {.subscription = site.subscription,
            .resource_group = parent.group,
            .workspace = parent.workspace,
            .experiment = parent.experiment,
            .job = submit::job_name_from_file(file.path),
            .cluster = {},
            .uuid = std::move(uuid)};
}

// Imports the image at submission. The nodes do not import images, and the user's script may never
// call `batchai run`, so the image must be in the cache before the first task starts. At this point
// no allocated node waits for the import.
base::Result<void> have_image(const Surroundings& here, const plan::Plan& plan) {
    if (!plan.container) return {};
    const auto access = TRY(image::access_of_job(*plan.container, plan.directories.plan_directory));
    TRY(submit::ensure_image(here.store, here.slurm, *plan.container, access));
    return {};
}

struct HandedOver {
    fs::path directory;
    submit::Planned planned;
};

// Returns nothing if the file has errors, which have been printed.
base::Result<std::optional<HandedOver>> plan_file(const Surroundings& here,
                                                  const HandOverOptions& options) {
    const submit::JobText text = TRY(submit::read_job_file(options.file.path));
    const auto identity = identity_of(options.file, here.site, base::random_uuid());
    auto directory = submit::handed_over_directory(here.store, identity.uuid);
    auto planning = TRY(submit::plan_job(here.store, here.site, text, options.file, {}, identity,
                                         directory.string()));
    fmt::print(stderr, "{}", planning.report);
    if (!planning.planned) return std::nullopt;
    return HandedOver{std::move(directory), std::move(*planning.planned)};
}

base::Result<void> freeze(const Surroundings& here, const HandedOver& made) {
    submit::prune_handed_over(here.store);
    const record::JobFiles files(made.directory);
    for (const auto& path : {made.directory, files.attempts(), files.shared()})
        TRY(base::make_directories(path, 0700));
    auto written = submit::write_plan(made.directory.string(), made.planned);
    if (!written) {
        std::error_code code;
        fs::remove_all(made.directory, code);
    }
    return written;
}

base::Result<plan::Door> door_of(const std::string& name) {
    if (name == "sbatch") return plan::Door::sbatch;
    if (name == "srun") return plan::Door::srun;
    if (name == "salloc") return plan::Door::salloc;
    return base::fail(fmt::format("\"{}\" is not sbatch, srun or salloc", name), "--door", {},
                      base::ExitCode::usage);
}

// Reads the options that are set on the command line, from standard input, as the JSON object that
// Slurm's json_cli_options() returns. Members that are not strings are not options.
base::Result<plan::GivenOptions> read_given_options() {
    constexpr std::size_t limit = 1UL << 20U;
    constexpr const char* where = "the options of the command";
    std::string text(limit, '\0');
    std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::cin.gcount()));
    const Value root = TRY(base::parse_json(text, where));
    if (!root.is_object()) return base::fail("are no JSON object", where);
    plan::GivenOptions given;
    for (const auto& [name, value] : *root.object()) {
        if (const std::string* const set = value.string()) given.emplace(name, *set);
    }
    return given;
}

// Returns the options that the filter must set; empty if no filter asks.
base::Result<std::vector<plan::SlurmOption>> options_for_filter(const HandOverOptions& options,
                                                                const plan::Plan& plan) {
    if (!options.door) return std::vector<plan::SlurmOption>();
    return plan::options_at_door(plan, TRY(door_of(*options.door)), TRY(read_given_options()),
                                 options.file.path);
}

// See protocol.h.
std::string answer_for_plugin(const HandedOver& made,
                              const std::vector<plan::SlurmOption>& to_set) {
    std::string out =
        fmt::format(BATCHAI_PLAN_VARIABLE "={}\n" BATCHAI_DIGEST_VARIABLE
                                          "={}\n" BATCHAI_DECLARATION_VARIABLE "={}\n",
                    record::JobFiles(made.directory).plan().string(), made.planned.digest,
                    made.planned.plan.declaration);
    for (const std::string& name : made.planned.secret_variables)
        out += fmt::format(BATCHAI_SECRET_LINE "={}\n", name);
    for (const plan::SlurmOption& option : to_set)
        out += fmt::format("--{}={}\n", option.name, option.value);
    return out;
}

}  // namespace

namespace {

// For a job that gets no plan: its secrets are kept from Slurm all the same.
Answer print_secret_variables(const Surroundings& here, const HandOverOptions& options) {
    const submit::JobText text = TRY(submit::read_job_file(options.file.path));
    for (const std::string& name : TRY(submit::secret_variables_of(here.store, here.site, text)))
        fmt::print(BATCHAI_SECRET_LINE "={}\n", name);
    return Outcome{};
}

}  // namespace

Answer hand_over(const HandOverOptions& options) {
    const Surroundings here = TRY(open_surroundings());
    if (options.secret_variables) return print_secret_variables(here, options);
    const auto made = TRY(plan_file(here, options));
    if (!made) return Outcome{.exit_code = static_cast<int>(base::ExitCode::bad_job_file)};
    if (made->planned.plan.software)
        fmt::print(stderr,
                   "batchai: `batchai run` sets up the \"software\" of {}; steps of your own have "
                   "it after that\n",
                   options.file.path);
    if (made->planned.plan.webhook)
        fmt::print(stderr, "batchai: `batchai run` tells the webhook of {} of the job's end\n",
                   options.file.path);
    const auto to_set = TRY(options_for_filter(options, made->planned.plan));
    const std::string answer = answer_for_plugin(*made, to_set);
    if (answer.size() > BATCHAI_HAND_OVER_LIMIT)
        return base::fail(
            fmt::format(
                "the path of the plan, the options and the names in \"fromEnv\" have {} bytes; "
                "at most {} can be handed over",
                answer.size(), BATCHAI_HAND_OVER_LIMIT),
            options.file.path,
            "use fewer variables in \"fromEnv\": a file can hold a secret as well",
            base::ExitCode::bad_job_file);
    TRY(freeze(here, *made));
    if (const auto image = have_image(here, made->planned.plan); !image) {
        std::error_code code;
        fs::remove_all(made->directory, code);
        return tl::unexpected(image.error());
    }
    fmt::print("{}", answer);
    return Outcome{};
}

base::Result<std::optional<FrozenPlan>> freeze_plan(const HandOverOptions& options) {
    const Surroundings here = TRY(open_surroundings());
    const auto made = TRY(plan_file(here, options));
    if (!made) return std::nullopt;
    TRY(freeze(here, *made));
    return FrozenPlan{.path = record::JobFiles(made->directory).plan().string(),
                      .digest = made->planned.digest};
}

Answer validate(const ValidateOptions& options) {
    const Surroundings here = TRY(open_surroundings());
    const submit::JobText text = TRY(submit::read_job_file(options.file.path));
    const auto identity = identity_of(options.file, here.site, submit::no_uuid);
    const auto files = here.store.job_files(
        {identity.resource_group, identity.workspace, identity.experiment, identity.job});
    const auto planning = TRY(submit::plan_job(here.store, here.site, text, options.file,
                                               {.cluster_must_exist = false,
                                                .image = submit::ImageQuestion::not_asked,
                                                .read_secrets = false},
                                               identity, files.directory().string()));
    const int code = planning.planned ? 0 : static_cast<int>(base::ExitCode::bad_job_file);
    if (options.format == "json") {
        fmt::print("{}", job::diagnostics_json(planning.diagnostics, text.name));
    } else {
        fmt::print(stderr, "{}", planning.report);
        if (code == 0) fmt::print("{}: valid\n", text.name);
    }
    return Outcome{.exit_code = code};
}

namespace {

void add_file_options(CLI::App& leaf, submit::JobFileOptions& file) {
    add_optional(leaf, "--storage-account-name", file.storage_account_name,
                 "Storage account for the file's placeholders [$AZURE_BATCHAI_STORAGE_ACCOUNT]")
        ->type_name("NAME");
    add_image_options(leaf, file);
}

}  // namespace

void add_plan_verbs(CommandTree& tree) {
    {
        auto [leaf, options] =
            add_verb(tree, tree.app, "validate", "Check a job file; change nothing",
                     "batchai validate job.json\n  batchai validate --format json job.json",
                     validate, Printing::by_itself);
        leaf->add_option("file", options->file.path, "job.json; - is standard input")->required();
        leaf->add_option("--format", options->format, "text or json [text]")
            ->type_name("FORMAT")
            ->check(CLI::IsMember({"text", "json"}));
        add_file_options(*leaf, options->file);
    }
    {
        auto [leaf, options] =
            add_verb(tree, tree.app, "hand-over", "Freeze the plan of a job file for batchai.so",
                     "batchai hand-over --job-json job.json", hand_over, Printing::by_itself);
        leaf->add_option("--job-json", options->file.path, "job.json")
            ->type_name("FILE")
            ->required();
        add_optional(*leaf, "--door", options->door, "sbatch, srun or salloc")->type_name("NAME");
        leaf->add_flag("--secret-variables", options->secret_variables,
                       "Only print which variables hold secrets");
        add_file_options(*leaf, options->file);
        leaf->group("");
    }
}

}  // namespace batchai::cli
