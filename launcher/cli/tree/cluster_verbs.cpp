// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/tree/builder.hpp"
#include "cli/verbs/cluster.hpp"

namespace batchai::cli {
namespace {

const char* const parents_example = " --workspace dev --resource-group team";

void add_name(CLI::App& leaf, ClusterOptions& options) {
    leaf.add_option("--name,-n", options.name, "Name of the cluster")
        ->type_name("NAME")
        ->required()
        ->group(resource_arguments);
    add_workspace_option(leaf, options.parents);
}

void add_bounds(CLI::App& leaf, ClusterOptions& options, bool required) {
    add_optional(leaf, "--min", options.minimum, "Least number of nodes")
        ->type_name("NODES")
        ->required(required);
    add_optional(leaf, "--max", options.maximum, "Greatest number of nodes")
        ->type_name("NODES")
        ->required(required);
}

void add_account_options(CLI::App& leaf, ClusterOptions& options) {
    const std::string note = " (accepted; the nodes have the site's accounts)";
    add_optional(leaf, "--user-name,-u", options.user_name, "Name of the admin user" + note)
        ->type_name("NAME")
        ->group("Admin Account Arguments");
    add_optional(leaf, "--ssh-key,-k", options.ssh_key, "SSH public key or its file" + note)
        ->type_name("KEY")
        ->group("Admin Account Arguments");
    add_optional(leaf, "--password,-p", options.password, "Password of the admin user" + note)
        ->type_name("TEXT")
        ->group("Admin Account Arguments");
    leaf.add_flag("--generate-ssh-keys", options.generate_ssh_keys, "Make SSH keys" + note)
        ->group("Admin Account Arguments");
}

void add_unsupported_options(CLI::App& leaf) {
    add_unsupported(leaf, "--image,-i", "Operating system image");
    add_unsupported(leaf, "--custom-image", "Id of a custom image");
    add_unsupported(leaf, "--setup-task", "Command that each node runs once");
    add_unsupported(leaf, "--setup-task-output", "Directory of the setup task's logs");
    add_unsupported(leaf, "--storage-account-key", "Key of the storage account");
    add_unsupported(leaf, "--subnet", "Subnet of the nodes");
    add_unsupported(leaf, "--use-auto-storage", "Make and mount a share and a container", true);
}

void add_create(CommandTree& tree, CLI::App& group) {
    auto [leaf, options] =
        add_verb(tree, group, "create", "Make a cluster: a named view of some of Slurm's nodes",
                 "batchai cluster create --name nc6 --vm-size STANDARD_NC6 --target 4" +
                     std::string(parents_example),
                 cluster_create);
    add_name(*leaf, *options);
    add_optional(*leaf, "--config-file,-f", options->config_file,
                 "cluster.json; options on the command line come before it")
        ->type_name("FILE");
    add_optional(*leaf, "--vm-size,-s", options->vm_size, "Kind of node; the site maps it to Slurm")
        ->type_name("SIZE");
    add_optional(*leaf, "--target,-t", options->target, "Number of nodes")->type_name("NODES");
    add_bounds(*leaf, *options, false);
    add_optional(*leaf, "--vm-priority", options->vm_priority, "dedicated or lowpriority")
        ->type_name("PRIORITY");
    add_account_options(*leaf, *options);
    add_optional(*leaf, "--storage-account-name", options->storage_account,
                 "Storage account of share and container [each job's own]")
        ->type_name("NAME")
        ->group(volume_arguments);
    add_volume_options(*leaf, options->volumes, "all jobs of the cluster have",
                       "$AZ_BATCHAI_MOUNT_ROOT");
    add_unsupported_options(*leaf);
}

}  // namespace

void add_cluster_verbs(CommandTree& tree) {
    auto& group = *add_group(tree.app, "cluster", "Manage clusters");
    const std::string example = "batchai cluster ";
    add_create(tree, group);
    {
        auto [leaf, options] = add_verb(
            tree, group, "show", "Show a cluster and the states of its nodes",
            example + "show --name nc6" + parents_example + " --output table", cluster_show);
        add_name(*leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the clusters of a workspace",
                     example + "list" + parents_example + " --output table", cluster_list);
        add_workspace_option(*leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "resize",
                     "Set the number of nodes that the cluster's jobs may have; Slurm's own nodes "
                     "stay as they are",
                     example + "resize --name nc6 --target 0" + parents_example, cluster_resize);
        add_name(*leaf, *options);
        add_optional(*leaf, "--target,-t", options->target, "Number of nodes")
            ->type_name("NODES")
            ->required();
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "auto-scale",
                     "Set the bounds within which the cluster's size follows its jobs; Slurm's own "
                     "nodes stay as they are",
                     example + "auto-scale --name nc6 --min 0 --max 4" + parents_example,
                     cluster_auto_scale);
        add_name(*leaf, *options);
        add_bounds(*leaf, *options, true);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete a cluster and cancel its jobs",
                     example + "delete --name nc6" + parents_example + " --yes", cluster_delete);
        add_name(*leaf, *options);
        add_yes_options(*leaf, options->yes, options->no_wait);
    }
}

}  // namespace batchai::cli
