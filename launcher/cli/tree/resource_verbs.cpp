// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/builder.hpp"
#include "cli/verbs/resource.hpp"

namespace batchai::cli {
namespace {

void add_own_name(CLI::App& leaf, const std::string& names, ResourceOptions& options) {
    leaf.add_option(names, options.name, "Name of the resource")
        ->type_name("NAME")
        ->required()
        ->group(resource_arguments);
}

void add_location(CLI::App& leaf, ResourceOptions& options) {
    add_optional(leaf, "--location,-l", options.location, "Location [the site's]")
        ->type_name("TEXT");
    leaf.add_option("--tags", options.tags, "Tags, as key=value")->type_name("TAG");
}

void add_group_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "group", "Manage resource groups");
    const std::string example = "batchai group ";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make a resource group",
                     example + "create --name team --location here", group_create);
        add_own_name(*leaf, "--name,-n,--resource-group,-g", *options);
        add_location(*leaf, *options);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show a resource group",
                                        example + "show --name team", group_show);
        add_own_name(*leaf, "--name,-n,--resource-group,-g", *options);
    }
    add_verb(tree, group, "list", "List the resource groups", example + "list --output table",
             group_list);
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete a resource group and all that is in it",
                     example + "delete --name team --yes", group_delete);
        add_own_name(*leaf, "--name,-n,--resource-group,-g", *options);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
}

void add_workspace_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "workspace", "Manage workspaces");
    const std::string example = "batchai workspace ";
    // The long form is --workspace, the short one -n: so it is in the Azure CLI.
    const std::string names = "--workspace,-n,--name,-w";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make a workspace",
                     example + "create --workspace dev --resource-group team", workspace_create);
        add_own_name(*leaf, names, *options);
        add_group_option(*leaf, options->parents);
        add_location(*leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "show", "Show a workspace",
                     example + "show --workspace dev --resource-group team", workspace_show);
        add_own_name(*leaf, names, *options);
        add_group_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "list", "List workspaces",
                                        example + "list --output table", workspace_list);
        add_group_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "delete", "Delete a workspace and all that is in it",
            example + "delete --workspace dev --resource-group team --yes", workspace_delete);
        add_own_name(*leaf, names, *options);
        add_group_option(*leaf, options->parents);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
}

void add_experiment_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "experiment", "Manage experiments");
    const std::string example = "batchai experiment ";
    const std::string parents = " --workspace dev --resource-group team";
    {
        auto [leaf, options] =
            add_verb(tree, group, "create", "Make an experiment",
                     example + "create --name cifar" + parents, experiment_create);
        add_own_name(*leaf, "--name,-n", *options);
        add_workspace_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show an experiment",
                                        example + "show --name cifar" + parents, experiment_show);
        add_own_name(*leaf, "--name,-n", *options);
        add_workspace_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the experiments of a workspace",
                     example + "list" + parents + " --output table", experiment_list);
        add_workspace_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete an experiment and its jobs",
                     example + "delete --name cifar" + parents + " --yes", experiment_delete);
        add_own_name(*leaf, "--name,-n", *options);
        add_workspace_option(*leaf, options->parents);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
}

}  // namespace

void add_resource_verbs(CommandTree& tree) {
    add_group_verbs(tree);
    add_workspace_verbs(tree);
    add_experiment_verbs(tree);
}

}  // namespace batchai::cli
