// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "cli/verbs/tags.hpp"
#include "clusters/view.hpp"
#include "status/job_watch.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

// The options of group, workspace and experiment. `name` is the name of the resource itself, and
// `parents` names the resources that contain it.
struct ResourceOptions {
    std::string name;
    user::ParentOptions parents;
    std::optional<std::string> location;
    std::vector<std::string> tags;  // "key=value" or "key"
    bool yes = false;
    bool no_wait = false;
};

using Jobs = base::Result<std::vector<store::Job>>;

store::WorkspaceKey own_workspace(const ResourceOptions& options) {
    return {user::group_name(options.parents).value, options.name};
}

store::ExperimentKey own_experiment(const ResourceOptions& options) {
    return {user::group_name(options.parents).value, user::workspace_name(options.parents).value,
            options.name};
}

template <typename Items>
Value resources_value(const Items& items, const std::string& subscription) {
    Value::Array values;
    for (const auto& item : items)
        values.push_back(status::to_value(item, subscription));
    return values;
}

// Stops the jobs and removes the resource after the user has agreed. `jobs_of` is called before the
// question, so that a resource that does not exist is reported without asking.
template <typename JobsOf, typename Remove>
Answer remove_with_jobs(const ResourceOptions& options, const JobsOf& jobs_of,
                        const Remove& remove) {
    auto here = TRY(open_context());
    const auto jobs = TRY(jobs_of(here.store));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    TRY(status::stop_jobs(here.store, here.slurm, jobs, !options.no_wait));
    TRY(remove(here.store));
    return Outcome{};
}

// The jobs of a workspace, and those of others that run on its clusters, which go with it.
Jobs jobs_that_need(const store::Store& store, const store::WorkspaceKey& key) {
    auto jobs = TRY(store.jobs_of_workspace(key));
    for (store::Job& job : TRY(clusters::jobs_on_clusters_of(store, key))) {
        const bool inside = job.key.group == key.group && job.key.workspace == key.workspace;
        if (!inside) jobs.push_back(std::move(job));
    }
    return jobs;
}

Jobs jobs_of_group(const store::Store& store, const std::string& group) {
    TRY(store.get<store::Group>({group}));
    const auto workspaces = TRY(store.list<store::Workspace>({group}));
    std::vector<store::Job> all;
    for (const auto& workspace : workspaces) {
        for (store::Job& job : TRY(jobs_that_need(store, workspace.key))) {
            const bool known = std::any_of(all.begin(), all.end(), [&](const store::Job& other) {
                return other.key == job.key;
            });
            if (!known) all.push_back(std::move(job));
        }
    }
    return all;
}

Jobs jobs_of_workspace(const store::Store& store, const store::WorkspaceKey& key) {
    TRY(store.get<store::Workspace>(key));
    return jobs_that_need(store, key);
}

Jobs jobs_of_experiment(const store::Store& store, const store::ExperimentKey& key) {
    TRY(store.get<store::Experiment>(key));
    return store.list<store::Job>(key);
}

template <typename Found>
Answer shown(const Found& found, const Context& here, Columns columns) {
    if (!found) return tl::unexpected(found.error());
    return Outcome{status::to_value(*found, here.site.subscription), std::move(columns)};
}

template <typename Found>
Answer listed(const Found& found, const Context& here, Columns columns) {
    if (!found) return tl::unexpected(found.error());
    return Outcome{resources_value(*found, here.site.subscription), std::move(columns)};
}

Answer group_create(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    const store::Group group{{options.name},
                             options.location.value_or(here.site.location),
                             tags_of(options.tags),
                             base::now()};
    // `az group create` of an existing group returns that group.
    const auto made = here.store.create(group);
    if (!made && made.error().exit_code != base::ExitCode::refused) {
        return tl::unexpected(made.error());
    }
    return shown(here.store.get<store::Group>({options.name}), here, {});
}

Answer group_show(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    return shown(here.store.get<store::Group>({options.name}), here, {});
}

Answer group_list(const ResourceOptions& /*options*/) {
    const auto here = TRY(open_context());
    return listed(here.store.list<store::Group>({}), here, {});
}

Answer group_exists(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    const auto found = here.store.get<store::Group>({options.name});
    if (!found && found.error().exit_code != base::ExitCode::not_found)
        return tl::unexpected(found.error());
    return Outcome{Value(found.has_value()), {}};
}

// The files of a storage account outlive the group, because nothing else could bring them back.
void say_what_stays(const store::Store& store, const std::string& group) {
    const auto accounts = store.list<store::StorageAccount>({group});
    if (!accounts) return;
    for (const auto& account : *accounts) {
        std::error_code code;
        if (!std::filesystem::exists(store.storage_root() / account.key.account, code)) continue;
        say(
            fmt::format("the files of the storage account {0} are not deleted; `az storage account "
                        "delete --name {0}` deletes them",
                        account.key.account));
    }
}

Answer group_delete(const ResourceOptions& options) {
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_group(store, options.name); },
        [&](const store::Store& store) {
            say_what_stays(store, options.name);
            return store.remove<store::Group>({options.name});
        });
}

Answer workspace_create(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    auto location = here.site.location;
    if (const auto group =
            here.store.get<store::Group>({user::group_name(options.parents).value})) {
        location = group->location;
    }
    const store::Workspace workspace{own_workspace(options), options.location.value_or(location),
                                     tags_of(options.tags), base::now()};
    TRY(here.store.create(workspace));
    return Outcome{status::to_value(workspace, here.site.subscription), {}};
}

Answer workspace_show(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    return shown(here.store.get<store::Workspace>(own_workspace(options)), here,
                 status::workspace_columns);
}

Answer workspace_list(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    const auto group = user::group_name(options.parents);
    if (!group.fallback)
        return listed(here.store.list<store::Workspace>({group.value}), here,
                      status::workspace_columns);
    const auto groups = TRY(here.store.list<store::Group>({}));
    Value::Array all;
    for (const auto& each : groups) {
        const auto workspaces = TRY(here.store.list<store::Workspace>(each.key));
        for (const auto& workspace : workspaces)
            all.push_back(status::to_value(workspace, here.site.subscription));
    }
    return Outcome{std::move(all), status::workspace_columns};
}

Answer workspace_delete(const ResourceOptions& options) {
    const auto key = own_workspace(options);
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_workspace(store, key); },
        [&](const store::Store& store) { return store.remove<store::Workspace>(key); });
}

Answer experiment_create(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    const store::Experiment experiment{own_experiment(options), base::now()};
    TRY(here.store.create(experiment));
    return Outcome{status::to_value(experiment, here.site.subscription), {}};
}

Answer experiment_show(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    return shown(here.store.get<store::Experiment>(own_experiment(options)), here,
                 status::experiment_columns);
}

Answer experiment_list(const ResourceOptions& options) {
    const auto here = TRY(open_context());
    const auto experiments =
        here.store.list<store::Experiment>(user::workspace_key(options.parents));
    if (!experiments && user::nothing_yet(experiments.error(), options.parents)) {
        return Outcome{Value::Array{}, status::experiment_columns};
    }
    return listed(experiments, here, status::experiment_columns);
}

Answer experiment_delete(const ResourceOptions& options) {
    const auto key = own_experiment(options);
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_experiment(store, key); },
        [&](const store::Store& store) { return store.remove<store::Experiment>(key); });
}

void add_own_name(Parser leaf, const std::string& names, ResourceOptions& options) {
    leaf.add_option(names, options.name, "Name of the resource")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
}

void add_location(Parser leaf, ResourceOptions& options) {
    add_optional(leaf, "--location,-l", options.location, "Location [the site's]")
        .type_name("TEXT");
    leaf.add_option("--tags", options.tags, "Tags, as key=value").type_name("TAG");
}

void add_group_verbs(CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "group", "Manage resource groups");
    const std::string example = "batchai group ";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make a resource group",
                     example + "create --name team --location here", group_create);
        add_own_name(leaf, "--name,-n,--resource-group,-g", *options);
        add_location(leaf, *options);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show a resource group",
                                        example + "show --name team", group_show);
        add_own_name(leaf, "--name,-n,--resource-group,-g", *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "exists", "Say whether a resource group exists",
                     example + "exists --name team", group_exists);
        add_own_name(leaf, "--name,-n,--resource-group,-g", *options);
    }
    add_verb(tree, group, "list", "List the resource groups", example + "list --output table",
             group_list);
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete a resource group and all that is in it",
                     example + "delete --name team --yes", group_delete);
        add_own_name(leaf, "--name,-n,--resource-group,-g", *options);
        add_yes_options(leaf, options->yes, options->no_wait);
    }
}

void add_workspace_verbs(CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "workspace", "Manage workspaces");
    const std::string example = "batchai workspace ";
    // As in the Azure CLI, the long form is --workspace and the short form is -n.
    const std::string names = "--workspace,-n,--name,-w";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make a workspace",
                     example + "create --workspace dev --resource-group team", workspace_create);
        add_own_name(leaf, names, *options);
        add_group_option(leaf, options->parents);
        add_location(leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a workspace",
                     example + "show --workspace dev --resource-group team", workspace_show);
        add_own_name(leaf, names, *options);
        add_group_option(leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "list", "List workspaces",
                                        example + "list --output table", workspace_list);
        add_group_option(leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "delete", "Delete a workspace and all that is in it",
            example + "delete --workspace dev --resource-group team --yes", workspace_delete);
        add_own_name(leaf, names, *options);
        add_group_option(leaf, options->parents);
        add_yes_options(leaf, options->yes, options->no_wait);
    }
}

void add_experiment_verbs(CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "experiment", "Manage experiments");
    const std::string example = "batchai experiment ";
    const std::string parents = " --workspace dev --resource-group team";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make an experiment",
                     example + "create --name cifar" + parents, experiment_create);
        add_own_name(leaf, "--name,-n", *options);
        add_workspace_option(leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show an experiment",
                                        example + "show --name cifar" + parents, experiment_show);
        add_own_name(leaf, "--name,-n", *options);
        add_workspace_option(leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the experiments of a workspace",
                     example + "list" + parents + " --output table", experiment_list);
        add_workspace_option(leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete an experiment and its jobs",
                     example + "delete --name cifar" + parents + " --yes", experiment_delete);
        add_own_name(leaf, "--name,-n", *options);
        add_workspace_option(leaf, options->parents);
        add_yes_options(leaf, options->yes, options->no_wait);
    }
}

}  // namespace

const Verbs resource_verbs("", 10, [](CommandTree& tree, Parser app) {
    add_group_verbs(tree, app);
    add_workspace_verbs(tree, app);
    add_experiment_verbs(tree, app);
});

}  // namespace batchai::cli
