// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/cluster.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/report/cluster_file.hpp"
#include "cli/report/cluster_report.hpp"
#include "cli/report/job_watch.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {
namespace {

constexpr auto usage = base::ExitCode::usage;

store::ClusterKey own_key(const ClusterOptions& options) {
    const auto parent = workspace_key(options.parents);
    return {parent.group, parent.workspace, options.name};
}

std::string current_user() {
    const auto* entry = getpwuid(getuid());
    return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

void say_what_has_no_effect(const ClusterOptions& options, const ClusterFile& file) {
    auto names = file.without_effect;
    if (options.generate_ssh_keys) names.emplace_back("--generate-ssh-keys");
    if (options.user_name) names.emplace_back("--user-name");
    if (options.ssh_key) names.emplace_back("--ssh-key");
    if (options.password) names.emplace_back("--password");
    for (const auto& name : names)
        say(fmt::format("{} has no effect: the nodes and their accounts are the site's", name));
}

base::Result<ClusterFile> read_config(const ClusterOptions& options) {
    if (!options.config_file) return ClusterFile{};
    const auto text = base::read_file(*options.config_file, 1U << 20U);
    if (!text) return tl::unexpected(text.error());
    return parse_cluster_file(*text, *options.config_file);
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
                      "--vm-size", "it has " + all, usage);
}

// Flags come before the file.
base::Result<store::Cluster> describe(const ClusterOptions& options, const ClusterFile& file,
                                      const site::Site& site) {
    const auto flags = scale_from_flags({options.target, options.minimum, options.maximum});
    if (!flags) return tl::unexpected(flags.error());
    const auto vm_size = options.vm_size ? options.vm_size : file.vm_size;
    if (!vm_size) return base::fail("Please provide VM size", "", "give --vm-size (-s)", usage);
    const auto known = check_vm_size(site, *vm_size);
    if (!known) return tl::unexpected(known.error());
    const auto scale = *flags ? *flags : file.scale;
    if (!scale) {
        return base::fail(
            "Please provide scale setting for the cluster via command line or configuration file",
            "", "give --target (-t), or --min and --max", usage);
    }
    store::Cluster cluster;
    cluster.key = own_key(options);
    cluster.vm_size = *vm_size;
    cluster.scale = *scale;
    cluster.vm_priority = file.vm_priority.value_or(store::VmPriority::dedicated);
    if (options.vm_priority) {
        const auto priority = base::from_word<store::VmPriority>(base::lower(*options.vm_priority));
        if (!priority) {
            return base::fail(fmt::format("no such priority: \"{}\"", *options.vm_priority),
                              "--vm-priority", "take dedicated or lowpriority", usage);
        }
        cluster.vm_priority = *priority;
    }
    cluster.admin_user_name =
        options.user_name.value_or(file.admin_user_name.value_or(current_user()));
    cluster.creation_time = base::now();
    cluster.allocation_state_transition_time = cluster.creation_time;
    return cluster;
}

Answer answer_with(const Surroundings& here, const store::Cluster& cluster, Columns columns) {
    auto values = cluster_values(here.store, here.site, here.slurm, {cluster});
    if (!values) return tl::unexpected(values.error());
    return Outcome{std::move(values->front()), std::move(columns)};
}

Answer rescale(const ClusterOptions& options, const store::ScaleSettings& scale) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    TRY(here->store.cluster(own_key(options)));
    TRY(here->slurm.ping());
    const auto cluster = here->store.update(own_key(options), [&](store::Cluster& record) {
        record.scale = scale;
        record.allocation_state_transition_time = base::now();
    });
    if (!cluster) return tl::unexpected(cluster.error());
    say("the cluster's record is changed: jobs created from now on keep to it; no node is powered "
        "up, "
        "powered down or drained, and running jobs keep theirs");
    return answer_with(*here, *cluster, {});
}

}  // namespace

Answer cluster_create(const ClusterOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto key = own_key(options);
    if (here->store.cluster(key)) {
        return base::fail(
            fmt::format("\"{}\" already exists in \"{}\" resource group under {} resource group.",
                        key.cluster, key.group, key.workspace));
    }
    const auto file = read_config(options);
    if (!file) return tl::unexpected(file.error());
    auto cluster = describe(options, *file, here->site);
    if (!cluster) return tl::unexpected(cluster.error());
    auto volumes = with_flags(file->mount_volumes, options.volumes, options.storage_account);
    if (!volumes.is_null()) {
        const auto checked = check_cluster_volumes(volumes);
        if (!checked) return tl::unexpected(checked.error());
        cluster->properties.set("nodeSetup", Value::Object{{"mountVolumes", std::move(volumes)}});
    }
    // The answer tells the nodes' states: nothing is made when Slurm cannot be asked for them.
    TRY(here->slurm.ping());
    TRY(ensure_workspace(here->store, here->site, options.parents));
    const auto made = here->store.create(*cluster);
    if (!made) return tl::unexpected(made.error());
    say_what_has_no_effect(options, *file);
    return answer_with(*here, *cluster, {});
}

Answer cluster_show(const ClusterOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto cluster = here->store.cluster(own_key(options));
    if (!cluster) return tl::unexpected(cluster.error());
    return answer_with(*here, *cluster, cluster_columns);
}

Answer cluster_list(const ClusterOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto clusters = here->store.clusters(workspace_key(options.parents));
    if (!clusters && nothing_yet(clusters.error(), options.parents)) {
        return Outcome{Value::Array{}, cluster_columns};
    }
    if (!clusters) return tl::unexpected(clusters.error());
    auto values = cluster_values(here->store, here->site, here->slurm, *clusters);
    if (!values) return tl::unexpected(values.error());
    return Outcome{std::move(*values), cluster_columns};
}

Answer cluster_resize(const ClusterOptions& options) {
    const auto scale = scale_from_flags({options.target, {}, {}});
    if (!scale) return tl::unexpected(scale.error());
    return rescale(options, **scale);
}

Answer cluster_auto_scale(const ClusterOptions& options) {
    const auto checked = scale_from_flags({{}, options.minimum, options.maximum});
    if (!checked) return tl::unexpected(checked.error());
    return rescale(options,
                   {.manual = {},
                    .auto_scale = store::AutoScale{.minimum_node_count = *options.minimum,
                                                   .maximum_node_count = *options.maximum}});
}

Answer cluster_delete(const ClusterOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto key = own_key(options);
    if (const auto found = here->store.cluster(key); !found) return tl::unexpected(found.error());
    const auto agreed = confirm(options.yes);
    if (!agreed) return tl::unexpected(agreed.error());
    if (!*agreed) return base::fail("operation cancelled");
    auto jobs = here->store.jobs_of_workspace(key.parent());
    if (!jobs) return tl::unexpected(jobs.error());
    std::erase_if(*jobs, [&](const store::Job& job) { return job.cluster != key.cluster; });
    const auto stopped = stop_jobs(here->store, here->slurm, *jobs, !options.no_wait);
    if (!stopped) return tl::unexpected(stopped.error());
    const auto removed = here->store.remove(key);
    if (!removed) return tl::unexpected(removed.error());
    return Outcome{};
}

}  // namespace batchai::cli
