// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/tree/builder.hpp"
#include "cli/verbs/context.hpp"
#include "clusters/view.hpp"
#include "slurm/node_addresses.hpp"
#include "status/output_directory.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

struct ClusterNodeOptions {
    std::string cluster;
    user::ParentOptions parents;
    std::string path = ".";
    int expiry = 60;  // minutes; without effect: file:// URLs do not expire
};

store::ClusterKey named_cluster(const ClusterNodeOptions& options) {
    const auto parent = user::workspace_key(options.parents);
    return {parent.group, parent.workspace, options.cluster};
}

Answer cluster_node_list(const ClusterNodeOptions& options) {
    const auto here = TRY(open_context());
    const auto cluster = TRY(here.store.get<store::Cluster>(named_cluster(options)));
    const auto view = TRY(clusters::nodes_of_cluster(here.store, here.site, here.slurm, cluster));
    std::vector<std::string> names;
    for (const auto& node : view.nodes)
        names.push_back(node.name);
    const auto addresses = slurm::addresses_of(names);
    Value::Array nodes;
    for (std::size_t i = 0; i < names.size(); ++i)
        nodes.emplace_back(
            Value::Object{{"ipAddress", addresses[i]}, {"nodeId", names[i]}, {"port", nullptr}});
    return Outcome{Value(std::move(nodes)), status::node_columns};
}

// Returns the directory of the setup task's logs, which the plans of the cluster's jobs have;
// nothing if there is no job yet.
base::Result<std::optional<std::string>> setup_logs(const store::Store& store,
                                                    const store::Cluster& cluster,
                                                    const std::string& suffix) {
    auto jobs = TRY(clusters::jobs_on_clusters_of(store, cluster.key.parent()));
    std::erase_if(jobs, [&](const store::Job& job) { return job.cluster_key() != cluster.key; });
    std::sort(jobs.begin(), jobs.end(), [](const store::Job& a, const store::Job& b) {
        return a.creation_time > b.creation_time;
    });
    for (const auto& job : jobs) {
        const auto plan = status::plan_of_job(store, job.key);
        if (!plan || !plan->node_setup) continue;
        const std::string& directory = plan->node_setup->log_directory;
        // A job may be of an older cluster of this name.
        if (directory.empty() || directory.ends_with(suffix)) return std::optional(directory);
    }
    return std::optional<std::string>();
}

// A cluster's files are the logs of its setup task. Without one it has none.
Answer cluster_file_list(const ClusterNodeOptions& options) {
    const auto here = TRY(open_context());
    const auto cluster = TRY(here.store.get<store::Cluster>(named_cluster(options)));
    const auto task = clusters::setup_task_of(cluster);
    if (!task) return Outcome{Value(Value::Array{}), status::cluster_file_columns};
    if (task->std_out_err_path_suffix.empty())
        return base::fail("List files is not supported for this cluster", options.cluster);
    const auto directory = TRY(setup_logs(here.store, cluster, task->std_out_err_path_suffix));
    if (directory && directory->empty())
        return base::fail(
            "List files is supported only for clusters with startup task configure to store its "
            "output on Azure File Share or Azure Blob Container",
            task->std_out_err_path_prefix, "the logs are among those of each job");
    Value::Array files;
    if (!directory) return Outcome{Value(std::move(files)), status::cluster_file_columns};
    const auto entries = status::list_directory(*directory, options.path);
    const bool absent = !entries && entries.error().exit_code == base::ExitCode::not_found;
    if (!entries && !(absent && options.path == ".")) return tl::unexpected(entries.error());
    for (const Value& entry : entries ? *entries->array() : Value::Array{}) {
        files.emplace_back(Value::Object{{"download_url", entry["downloadUrl"]},
                                         {"is_directory", entry["contentLength"].is_null()},
                                         {"name", entry["name"]},
                                         {"size", entry["contentLength"]}});
    }
    return Outcome{Value(std::move(files)), status::cluster_file_columns};
}

void add_cluster(Parser leaf, ClusterNodeOptions& options) {
    leaf.add_option("--cluster,-c", options.cluster, "Name of the cluster")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_workspace_option(leaf, options.parents);
}

}  // namespace

const Verbs cluster_node_verbs("cluster", 10, [](CommandTree& tree, Parser cluster) {
    const std::string named = " --cluster nc6 --workspace dev --resource-group team";
    {
        const Parser group = add_group(cluster, "node", "The nodes of a cluster");
        auto [leaf, options] =
            add_verb(tree, group, "list", "List the nodes that a cluster has now",
                     "batchai cluster node list --output table" + named, cluster_node_list);
        add_cluster(leaf, *options);
    }
    const Parser group = add_group(cluster, "file", "The files of a cluster's setup task");
    auto [leaf, options] =
        add_verb(tree, group, "list", "List the files of a cluster's setup task",
                 "batchai cluster file list --output table" + named, cluster_file_list);
    add_cluster(leaf, *options);
    leaf.add_option("--path,-p", options->path, "Path below their directory [.]").type_name("PATH");
    leaf.add_option("--expiry", options->expiry,
                    "Accepted for the Azure CLI's sake: a file:// URL does not expire")
        .type_name("MINUTES");
});

}  // namespace batchai::cli
