// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/builder.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/Version.hpp>
#include <fmt/format.h>

#include "base/standard_error.hpp"
#include "base/text.hpp"
#include "cli/tree/ids.hpp"
#include "cli/tree/refused.hpp"
#include "cli/tree/tree.hpp"
#include "job/schema/checks.hpp"
#include "job/schema/field_table.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::cli {

Parser add_group(Parser parent, const std::string& name, const std::string& description) {
    auto* group = parent.app().add_subcommand(name, description);
    group->set_help_flag("--help,-h", "Show this help and exit")->group(global_arguments);
    group->require_subcommand(1);
    return Parser(*group);
}

namespace {

void add_global_options(CommandTree& tree, Parser leaf) {
    auto& global = tree.global;
    leaf.add_flag("--verbose", global.verbose,
                  "Say on standard error where records are, and which programs are run")
        .group(global_arguments);
    leaf.add_flag("--debug", global.debug, "As --verbose, with times and exit codes")
        .group(global_arguments);
    leaf.add_flag("--only-show-errors", global.only_show_errors,
                  "Print neither notes nor warnings nor progress on standard error")
        .group(global_arguments);
    add_optional(leaf, "--subscription", global.subscription,
                 "Accepted without effect: all resources are in the site's one subscription")
        .type_name("ID")
        .group(global_arguments);
}

}  // namespace

Parser add_leaf(CommandTree& tree, Parser parent, const std::string& name,
                const std::string& description, const std::string& example, Printing printing,
                std::function<Answer()> action) {
    auto& app = *parent.app().add_subcommand(name, description);
    const Parser leaf(app);
    app.set_help_flag("--help,-h", "Show this help and exit")->group(global_arguments);
    if (printing != Printing::by_itself) {
        const bool heeded = printing == Printing::by_engine;
        leaf.add_option("--output,-o", tree.global.output,
                        heeded ? "Output format: json, jsonc, table, tsv, yaml, none"
                               : "Accepted without effect: what a job prints has no format")
            .type_name("FORMAT")
            .group(global_arguments);
        add_optional(leaf, "--query", tree.global.query,
                     heeded ? "JMESPath query on the output" : "Accepted without effect")
            .type_name("JMESPATH")
            .group(global_arguments);
    }
    add_global_options(tree, leaf);
    app.footer("Example:\n  " + example);
    app.callback([&tree, action = std::move(action)] { tree.action = action; });
    // A group inherits the footer of the whole program, which is replaced by that of its first
    // verb.
    if (parent.app().get_parent() != nullptr && parent.app().get_footer() == tree.app.get_footer())
        parent.app().footer(app.get_footer());
    return leaf;
}

void add_group_option(Parser leaf, user::ParentOptions& parents) {
    add_optional(leaf, "--resource-group,-g", parents.group,
                 "Name of the resource group [$BATCHAI_DEFAULTS_GROUP, $AZURE_DEFAULTS_GROUP, "
                 "default]")
        .type_name("NAME")
        .group(resource_arguments);
}

void add_workspace_option(Parser leaf, user::ParentOptions& parents) {
    add_group_option(leaf, parents);
    add_optional(leaf, "--workspace,-w", parents.workspace,
                 "Name of the workspace [$BATCHAI_DEFAULTS_WORKSPACE, $AZURE_DEFAULTS_WORKSPACE, "
                 "default]")
        .type_name("NAME")
        .group(resource_arguments);
}

void add_experiment_option(Parser leaf, user::ParentOptions& parents) {
    add_workspace_option(leaf, parents);
    add_optional(leaf, "--experiment,-e", parents.experiment,
                 "Name of the experiment [$BATCHAI_DEFAULTS_EXPERIMENT, "
                 "$AZURE_DEFAULTS_EXPERIMENT, default]")
        .type_name("NAME")
        .group(resource_arguments);
}

void add_job_options(Parser leaf, user::JobName& name, const std::string& names) {
    leaf.add_option(names, name.job, "Name of the job")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_experiment_option(leaf, name.parents);
}

void add_task_option(Parser leaf, std::optional<int>& task, const std::string& description) {
    add_optional(leaf, "--task", task, description).type_name("NUMBER").non_negative();
}

void add_yes_options(Parser leaf, bool& yes, bool& no_wait) {
    leaf.add_flag("--yes,-y", yes, "Do not ask for confirmation");
    leaf.add_flag("--no-wait", no_wait, "Do not wait until Slurm has ended the jobs");
}

void add_image_options(Parser leaf, submit::JobFileOptions& file) {
    add_optional(leaf, "--job-image", file.job_image,
                 "Run in this container image instead of the file's")
        .type_name("IMAGE");
    leaf.add_flag("--ignore-container", file.ignore_container,
                  "Run directly on the nodes in spite of containerSettings");
}

void add_volume_options(Parser leaf, clusters::VolumeFlags& volumes, const std::string& whose,
                        const std::string& root) {
    const auto volume = [&](const char* name_flag, const char* path_flag,
                            std::optional<std::string>& name, std::string& path,
                            const std::string& what) {
        add_optional(leaf, name_flag, name, what + " that " + whose)
            .type_name("NAME")
            .group(volume_arguments);
        leaf.add_option(path_flag, path, "Where, below " + root)
            .type_name("PATH")
            .show_default()
            .group(volume_arguments);
    };
    volume("--afs-name", "--afs-mount-path", volumes.file_share, volumes.file_share_path,
           "File share");
    volume("--bfs-name,--container-name", "--bfs-mount-path,--container-mount-path",
           volumes.container, volumes.container_path, "Blob container");
    volume("--nfs", "--nfs-mount-path", volumes.file_server, volumes.file_server_path,
           "File server");
}

void add_slurm_options(Parser leaf, job::SlurmSettings& slurm) {
    for (const job::Field& field : job::slurm_object.fields) {
        const std::string name = fmt::format("--{}", field.name);
        const std::string doc =
            fmt::format("{} [the file's, config.toml's, else the site's]", field.doc);
        if (field.kind == job::Kind::boolean) {
            leaf.app()
                .add_flag_function(
                    fmt::format("{},!--no-{}", name, field.name),
                    [&slurm, store = field.access.store](std::int64_t count) {
                        store(&slurm, count > 0);
                    },
                    doc)
                ->group(slurm_arguments);
            continue;
        }
        const auto check = [check = field.check, name](const std::string& value) {
            const auto failure = job::check_text(check, value);
            if (failure) throw CLI::ValidationError(name, failure->message);
            if (!job::is_utf8(value)) throw CLI::ValidationError(name, "must be UTF-8");
        };
        leaf.app()
            .add_option_function<std::string>(
                name,
                [&slurm, check, store = field.access.store](const std::string& value) {
                    check(value);
                    store(&slurm, value);
                },
                doc)
            ->type_name("VALUE")
            ->group(slurm_arguments);
    }
}

namespace {

// Where a row is in the table: a group is made before what belongs to it.
struct RowPlace {
    std::size_t words;  // of the group
    std::string_view group;
    int place;

    auto operator<=>(const RowPlace&) const = default;
};

using AddVerbs = void (*)(CommandTree& tree, Parser group);

// A function's, because the rows are made before main() begins, in no particular order.
std::map<RowPlace, AddVerbs>& table_of_verbs() {
    static std::map<RowPlace, AddVerbs> rows;
    return rows;
}

std::vector<std::string_view> words_of(std::string_view group) {
    return group.empty() ? std::vector<std::string_view>() : base::split(group, ' ');
}

void add_registered_verbs(CommandTree& tree) {
    for (const auto& [place, add] : table_of_verbs()) {
        CLI::App* group = &tree.app;
        for (const std::string_view word : words_of(place.group))
            group = group->get_subcommand(std::string(word));
        add(tree, Parser(*group));
    }
}

}  // namespace

Verbs::Verbs(std::string_view group, int place, AddVerbs add) {
    if (table_of_verbs().try_emplace({words_of(group).size(), group, place}, add).second) return;
    base::print_error("batchai: two rows of verbs have the place {} in \"{}\"\n", place, group);
    std::abort();
}

std::unique_ptr<CommandTree> make_tree() {
    auto tree = std::make_unique<CommandTree>();
    auto& app = tree->app;
#if CLI11_VERSION_MAJOR > 2 || CLI11_VERSION_MINOR >= 6
    // An option that is refused is told before one that is missing, as older releases do.
    app.option_defaults()->callback_priority(CLI::CallbackPriority::PreRequirementsCheck);
#endif
    app.set_help_flag("--help,-h", "Show this help and exit")->group(global_arguments);
    app.set_version_flag("--version", std::string(BATCHAI_VERSION), "Show the version and exit")
        ->group(global_arguments);
    app.footer(
        "Example:\n  batchai job create --name train --config-file job.json\n  batchai job file "
        "stream --job train --file-name stdout.txt");
    app.require_subcommand(1);
    add_registered_verbs(*tree);
    add_ids_options(*tree);
    add_azure_options(*tree);
    return tree;
}

}  // namespace batchai::cli
