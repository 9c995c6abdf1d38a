// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/text.hpp"
#include "cli/output/output.hpp"
#include "cli/output/terminal.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "clusters/auto_storage.hpp"
#include "clusters/file.hpp"
#include "clusters/scaling.hpp"
#include "clusters/view.hpp"
#include "clusters/volume_flags.hpp"
#include "status/job_watch.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct ClusterOptions {
    std::string name;
    user::ParentOptions parents;
    std::optional<std::string> config_file;
    std::optional<std::string> vm_size;
    std::optional<std::string> vm_priority;
    std::optional<int> target;
    std::optional<int> minimum;
    std::optional<int> maximum;
    std::optional<std::string> user_name;
    // Accepted because tutorials use them, but without effect: the nodes have the site's accounts.
    bool generate_ssh_keys = false;
    std::optional<std::string> ssh_key;
    std::optional<std::string> password;
    clusters::VolumeFlags volumes;
    std::optional<std::string> storage_account;  // of the volumes
    bool use_auto_storage = false;
    std::optional<std::string> setup_task;
    std::optional<std::string> setup_task_output;
    bool yes = false;
    bool no_wait = false;
};

store::ClusterKey own_cluster(const ClusterOptions& options) {
    const auto parent = user::workspace_key(options.parents);
    return {parent.group, parent.workspace, options.name};
}

void say_what_has_no_effect(const ClusterOptions& options, const clusters::ClusterFile& file) {
    auto names = file.without_effect;
    if (options.generate_ssh_keys) names.emplace_back("--generate-ssh-keys");
    if (options.user_name) names.emplace_back("--user-name");
    if (options.ssh_key) names.emplace_back("--ssh-key");
    if (options.password) names.emplace_back("--password");
    for (const auto& name : names)
        say(fmt::format("{} has no effect: the nodes and their accounts belong to the site", name));
}

base::Result<clusters::ClusterFile> read_config(const ClusterOptions& options) {
    if (!options.config_file) return clusters::ClusterFile{};
    const auto text = TRY(base::read_file(*options.config_file, 1U << 20U));
    return clusters::parse_cluster_file(text, *options.config_file);
}

base::Result<void> check_vm_size(const site::Site& site, const std::string& vm_size) {
    if (site.any_vm_size || site.vm_sizes.contains(base::upper(vm_size))) return {};
    std::vector<std::string_view> known;
    std::string all;
    for (const auto& [name, size] : site.vm_sizes) {
        known.push_back(name);
        all += (all.empty() ? "" : ", ") + name;
    }
    const auto guess = base::nearest(vm_size, known);
    return base::fail(fmt::format("this site has no VM size \"{}\"{}", vm_size,
                                  guess ? fmt::format("; did you mean \"{}\"?", *guess) : ""),
                      "--vm-size", "it has " + all, base::ExitCode::usage);
}

// Flags take precedence over the file.
base::Result<store::Cluster> describe(const ClusterOptions& options,
                                      const clusters::ClusterFile& file, const site::Site& site) {
    const auto flags =
        TRY(clusters::scale_from_flags({options.target, options.minimum, options.maximum}));
    const auto vm_size = options.vm_size ? options.vm_size : file.vm_size;
    if (!vm_size)
        return base::fail("Please provide VM size", "", "give --vm-size (-s)",
                          base::ExitCode::usage);
    TRY(check_vm_size(site, *vm_size));
    const auto scale = flags ? flags : file.scale;
    if (!scale) {
        return base::fail(
            "Please provide scale setting for the cluster via command line or configuration file",
            "", "give --target (-t), or --min and --max", base::ExitCode::usage);
    }
    store::Cluster cluster;
    cluster.key = own_cluster(options);
    cluster.vm_size = *vm_size;
    cluster.scale = *scale;
    cluster.vm_priority = file.vm_priority.value_or(store::VmPriority::dedicated);
    if (options.vm_priority) {
        const auto priority = base::from_word<store::VmPriority>(base::lower(*options.vm_priority));
        if (!priority) {
            return base::fail(fmt::format("no such priority: \"{}\"", *options.vm_priority),
                              "--vm-priority", "take dedicated or lowpriority",
                              base::ExitCode::usage);
        }
        cluster.vm_priority = *priority;
    }
    cluster.admin_user_name =
        options.user_name.value_or(file.admin_user_name.value_or(user::current_user()));
    cluster.uuid = base::random_uuid();
    cluster.creation_time = base::now();
    cluster.allocation_state_transition_time = cluster.creation_time;
    return cluster;
}

Answer answer_with(const Context& here, const store::Cluster& cluster, Columns columns) {
    auto values = TRY(clusters::cluster_values(here.store, here.site, here.slurm, {cluster}));
    return Outcome{std::move(values.front()), std::move(columns)};
}

// Makes the nodes follow the target, and tells the user what happens.
base::Result<store::Cluster> scaled(const Context& here, const store::ClusterKey& key,
                                    const clusters::ScalingView& view, int initial = 0) {
    clusters::Rescaled rescaled =
        TRY(clusters::follow_target(here.store, here.slurm, key, view, initial));
    for (const auto& remark : rescaled.remarks)
        say(remark);
    TRY(clusters::power_up_late_nodes(here.site, here.slurm, rescaled));
    return std::move(rescaled.cluster);
}

// Returns the nodeSetup of the cluster's record; null if there is none.
base::Result<Value> node_setup(const ClusterOptions& options, const clusters::ClusterFile& file,
                               const store::Cluster& cluster, const store::Store& store,
                               const site::Site& site) {
    if (options.setup_task.has_value() != options.setup_task_output.has_value())
        return base::fail(options.setup_task
                              ? "--setup-task requires providing of --setup-task-output"
                              : "--setup-task-output has no meaning without --setup-task",
                          "", "", base::ExitCode::usage);
    auto task = options.setup_task
                    ? clusters::setup_task(*options.setup_task, *options.setup_task_output)
                    : file.setup_task;
    Value setup;
    if (!task.is_null()) {
        task.set(
            "stdOutErrPathSuffix",
            fmt::format("{}/{}/workspaces/{}/clusters/{}/{}", site.subscription, cluster.key.group,
                        cluster.key.workspace, cluster.key.cluster, cluster.uuid));
        setup.set("setupTask", std::move(task));
    }
    auto volumes =
        clusters::with_flags(file.mount_volumes, options.volumes, options.storage_account);
    if (options.use_auto_storage) volumes = TRY(clusters::with_auto_storage(volumes, store, site));
    if (!volumes.is_null()) {
        TRY(clusters::check_cluster_volumes(volumes));
        setup.set("mountVolumes", std::move(volumes));
    }
    return setup;
}

Answer rescale(const ClusterOptions& options, const store::ScaleSettings& scale) {
    const auto here = TRY(open_context());
    const auto key = own_cluster(options);
    const auto cluster = TRY(here.store.get<store::Cluster>(key));
    TRY(here.slurm.ping());
    // A target is not recorded before Slurm has said what there is to change.
    const clusters::ScalingView view =
        TRY(clusters::look_at_slurm(here.store, here.site, here.slurm, cluster));
    TRY(here.store.update<store::Cluster>(key, [&](store::Cluster& record) {
        record.scale = scale;
        record.allocation_state_transition_time = base::now();
    }));
    return answer_with(here, TRY(scaled(here, key, view)), {});
}

Answer cluster_create(const ClusterOptions& options) {
    const auto here = TRY(open_context());
    const auto key = own_cluster(options);
    if (here.store.get<store::Cluster>(key)) {
        return base::fail(
            fmt::format("\"{}\" already exists in \"{}\" resource group under {} resource group.",
                        key.cluster, key.group, key.workspace),
            "", "", base::ExitCode::refused);
    }
    const auto file = TRY(read_config(options));
    auto cluster = TRY(describe(options, file, here.site));
    // The output includes the states of the nodes, so nothing is created if Slurm does not answer.
    TRY(here.slurm.ping());
    auto setup = TRY(node_setup(options, file, cluster, here.store, here.site));
    if (!setup.is_null()) cluster.properties.set("nodeSetup", std::move(setup));
    TRY(user::ensure_workspace(here.store, here.site, options.parents));
    TRY(here.store.create(cluster));
    say_what_has_no_effect(options, file);
    // The cluster exists now, whatever becomes of its nodes.
    const auto& automatic = cluster.scale.auto_scale;
    const int initial = automatic ? automatic->initial_node_count : 0;
    const auto with_nodes = clusters::look_at_slurm(here.store, here.site, here.slurm, cluster)
                                .and_then([&](const clusters::ScalingView& view) {
                                    return scaled(here, key, view, initial);
                                });
    if (!with_nodes)
        warn("its nodes do not follow the target yet, give \"cluster resize\": " +
             with_nodes.error().text());
    return answer_with(here, with_nodes.value_or(cluster), {});
}

Answer cluster_show(const ClusterOptions& options) {
    const auto here = TRY(open_context());
    const auto cluster = TRY(here.store.get<store::Cluster>(own_cluster(options)));
    return answer_with(here, cluster, status::cluster_columns);
}

Answer cluster_list(const ClusterOptions& options) {
    const auto here = TRY(open_context());
    const auto clusters = here.store.list<store::Cluster>(user::workspace_key(options.parents));
    if (!clusters && user::nothing_yet(clusters.error(), options.parents)) {
        return Outcome{Value::Array{}, status::cluster_columns};
    }
    if (!clusters) return tl::unexpected(clusters.error());
    auto values = TRY(clusters::cluster_values(here.store, here.site, here.slurm, *clusters));
    return Outcome{std::move(values), status::cluster_columns};
}

Answer cluster_resize(const ClusterOptions& options) {
    const auto scale = TRY(clusters::scale_from_flags({options.target, {}, {}}));
    return rescale(options, *scale);
}

Answer cluster_auto_scale(const ClusterOptions& options) {
    TRY(clusters::scale_from_flags({{}, options.minimum, options.maximum}));
    return rescale(options,
                   {.manual = {},
                    .auto_scale = store::AutoScale{.minimum_node_count = *options.minimum,
                                                   .maximum_node_count = *options.maximum}});
}

Answer cluster_delete(const ClusterOptions& options) {
    const auto here = TRY(open_context());
    const auto key = own_cluster(options);
    const auto cluster = TRY(here.store.get<store::Cluster>(key));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    auto jobs = TRY(clusters::jobs_on_clusters_of(here.store, key.parent()));
    std::erase_if(jobs, [&](const store::Job& job) { return job.cluster_key() != key; });
    TRY(status::stop_jobs(here.store, here.slurm, jobs, !options.no_wait));
    const auto powered = clusters::power_down_all(here.store, here.site, here.slurm, cluster);
    if (!powered) warn("the nodes of the cluster stay as they are: " + powered.error().text());
    for (const auto& remark : powered.value_or(std::vector<std::string>{}))
        say(remark);
    TRY(here.store.remove<store::Cluster>(key));
    return Outcome{};
}

const char* const parents_example = " --workspace dev --resource-group team";

void add_cluster_name(Parser leaf, ClusterOptions& options) {
    leaf.add_option("--name,-n", options.name, "Name of the cluster")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_workspace_option(leaf, options.parents);
}

void add_bounds(Parser leaf, ClusterOptions& options, bool required) {
    add_optional(leaf, "--min", options.minimum, "Least number of nodes")
        .type_name("NODES")
        .required(required);
    add_optional(leaf, "--max", options.maximum, "Greatest number of nodes")
        .type_name("NODES")
        .required(required);
}

void add_admin_account_options(Parser leaf, ClusterOptions& options) {
    const std::string note = " (accepted but ignored; the nodes have the site's accounts)";
    add_optional(leaf, "--user-name,-u", options.user_name, "Name of the admin user" + note)
        .type_name("NAME")
        .group("Admin Account Arguments");
    add_optional(leaf, "--ssh-key,-k", options.ssh_key, "SSH public key or its file" + note)
        .type_name("KEY")
        .group("Admin Account Arguments");
    add_optional(leaf, "--password,-p", options.password, "Password of the admin user" + note)
        .type_name("TEXT")
        .group("Admin Account Arguments");
    leaf.add_flag("--generate-ssh-keys", options.generate_ssh_keys, "Make SSH keys" + note)
        .group("Admin Account Arguments");
}

void add_cluster_create(CommandTree& tree, Parser group) {
    auto [leaf, options] =
        add_verb(tree, group, "create", "Make a cluster: a named view of some of Slurm's nodes",
                 "batchai cluster create --name nc6 --vm-size STANDARD_NC6 --target 4" +
                     std::string(parents_example),
                 cluster_create);
    add_cluster_name(leaf, *options);
    add_optional(leaf, "--config-file,-f,-c", options->config_file,
                 "cluster.json; options on the command line override it")
        .type_name("FILE");
    add_optional(leaf, "--vm-size,-s", options->vm_size, "Kind of node; the site maps it to Slurm")
        .type_name("SIZE");
    add_optional(leaf, "--target,-t", options->target, "Number of nodes").type_name("NODES");
    add_bounds(leaf, *options, false);
    add_optional(leaf, "--vm-priority", options->vm_priority, "dedicated or lowpriority")
        .type_name("PRIORITY");
    add_admin_account_options(leaf, *options);
    add_optional(leaf, "--storage-account-name", options->storage_account,
                 "Storage account of share and container [each job's own]")
        .type_name("NAME")
        .group(volume_arguments);
    add_volume_options(leaf, options->volumes, "all jobs of the cluster have",
                       "$AZ_BATCHAI_MOUNT_ROOT");
    leaf.add_flag("--use-auto-storage", options->use_auto_storage,
                  "Make a share and a container, and mount them at autoafs and autobfs")
        .group(volume_arguments);
    add_optional(leaf, "--setup-task", options->setup_task,
                 "Command that each node runs once after it has started, before its first job")
        .type_name("COMMAND")
        .group("Setup Task Arguments");
    add_optional(leaf, "--setup-task-output", options->setup_task_output,
                 "Directory of the setup task's logs, on a volume of the cluster")
        .type_name("DIRECTORY")
        .group("Setup Task Arguments");
}

}  // namespace

const Verbs cluster_verbs("", 20, [](CommandTree& tree, Parser app) {
    const Parser group = add_group(app, "cluster", "Manage clusters");
    const std::string example = "batchai cluster ";
    add_cluster_create(tree, group);
    {
        auto [leaf, options] = add_verb(
            tree, group, "show", "Show a cluster and the states of its nodes",
            example + "show --name nc6" + parents_example + " --output table", cluster_show);
        add_cluster_name(leaf, *options);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the clusters of a workspace",
                     example + "list" + parents_example + " --output table", cluster_list);
        add_workspace_option(leaf, options->parents);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "resize",
            "Set the number of nodes that the cluster's jobs may have. An administrator of a "
            "Slurm with power saving also powers nodes up to it, and down below it",
            example + "resize --name nc6 --target 0" + parents_example, cluster_resize);
        add_cluster_name(leaf, *options);
        add_optional(leaf, "--target,-t", options->target, "Number of nodes")
            .type_name("NODES")
            .required();
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "auto-scale",
                     "Set the bounds within which the cluster's size follows its jobs. An "
                     "administrator of a Slurm with power saving also powers nodes up and down",
                     example + "auto-scale --name nc6 --min 0 --max 4" + parents_example,
                     cluster_auto_scale);
        add_cluster_name(leaf, *options);
        add_bounds(leaf, *options, true);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete a cluster and cancel its jobs",
                     example + "delete --name nc6" + parents_example + " --yes", cluster_delete);
        add_cluster_name(leaf, *options);
        add_yes_options(leaf, options->yes, options->no_wait);
    }
});

}  // namespace batchai::cli
