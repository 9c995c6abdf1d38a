// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/view.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "cli/output/query.hpp"
#include "cli/output/terminal.hpp"
#include "clusters/volume_flags.hpp"
#include "slurm/array_indexes.hpp"
#include "slurm/node_view.hpp"
#include "status/job_view.hpp"
#include "status/resource_view.hpp"

namespace batchai::clusters {

slurm::NodeFilter node_filter(const site::Site& site, const std::string& vm_size) {
    const auto size = site.vm_sizes.find(base::upper(vm_size));
    if (size == site.vm_sizes.end()) return {site.default_partition, ""};
    const auto& partition = size->second.partition;
    return {partition.empty() ? site.default_partition : partition, size->second.constraint};
}

namespace {

bool ranks_run(const std::optional<record::Attempt>& attempt) {
    return attempt && !attempt->phases.empty() && attempt->phases.back().name == "ranks";
}

// No cluster has so many, and their sum for several jobs stays a number.
constexpr std::int64_t most_wanted = 1'000'000'000;

void add_wanted(std::int64_t nodes, ClusterLoad& load) {
    load.wanted_nodes =
        static_cast<int>(std::min(most_wanted, std::int64_t{load.wanted_nodes} + nodes));
}

struct OpenTasks {
    std::int64_t queued = 0;
    std::int64_t begun = 0;
};

// Each task of an array job has nodes of its own. Tasks that must wait for others of their array
// want none yet.
void add_tasks(const status::JobView& job_view, ClusterLoad& load) {
    std::vector<int> numbers;
    for (const status::TaskView& task : job_view.tasks)
        numbers.push_back(task.number);
    const auto runs = status::runs_of(job_view.job, numbers);
    std::map<std::string, OpenTasks> arrays;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const status::TaskView& task = job_view.tasks[i];
        if (task.ended()) continue;
        OpenTasks& open = arrays[runs[i].slurm_job_id];
        ++(task.state == slurm::ExecutionState::queued ? open.queued : open.begun);
        const auto& slurm = task.evidence.slurm;
        if (task.state != slurm::ExecutionState::queued && slurm && !slurm->nodes.empty())
            load.jobs.push_back({slurm->nodes, !ranks_run(task.attempt)});
    }
    const auto limit = slurm::tasks_at_once(job_view.job.array);
    for (const auto& [id, open] : arrays) {
        std::int64_t at_once = open.queued + open.begun;
        if (limit) at_once = std::max(open.begun, std::min<std::int64_t>(at_once, *limit));
        add_wanted(at_once * job_view.job.all_nodes(), load);
    }
}

}  // namespace

ClusterLoad load_of(const store::ClusterKey& cluster,
                    const std::vector<status::JobView>& job_views) {
    ClusterLoad load;
    for (const auto& job_view : job_views) {
        if (job_view.job.cluster_key() != cluster || job_view.ended()) continue;
        if (!job_view.tasks.empty()) {
            add_tasks(job_view, load);
            continue;
        }
        add_wanted(job_view.job.all_nodes(), load);
        if (job_view.state != slurm::ExecutionState::queued && job_view.evidence.slurm &&
            !job_view.evidence.slurm->nodes.empty()) {
            load.jobs.push_back({job_view.evidence.slurm->nodes, !ranks_run(job_view.attempt)});
        }
    }
    return load;
}

int target_of(const store::Cluster& cluster, int wanted_nodes) {
    const auto& [manual, automatic] = cluster.scale;
    if (manual) return manual->target_node_count;
    return slurm::autoscale_target(automatic->minimum_node_count, automatic->maximum_node_count,
                                   wanted_nodes);
}

int node_limit(const store::Cluster& cluster) {
    const auto& [manual, automatic] = cluster.scale;
    return manual ? manual->target_node_count : automatic->maximum_node_count;
}

std::set<std::string, std::less<>> nodes_of_others(const store::Store& store,
                                                   const store::ClusterKey& key) {
    std::set<std::string, std::less<>> names;
    // A record that cannot be read is reported where its own cluster is shown.
    for (const auto& group : store.list<store::Group>({}).value_or(std::vector<store::Group>{})) {
        const auto workspaces = store.list<store::Workspace>(group.key);
        if (!workspaces) continue;
        for (const auto& workspace : *workspaces) {
            const auto clusters = store.list<store::Cluster>(workspace.key);
            if (!clusters) continue;
            for (const auto& cluster : *clusters) {
                if (cluster.key != key) names.insert(cluster.nodes.begin(), cluster.nodes.end());
            }
        }
    }
    return names;
}

namespace {

base::Value node_state_counts(const slurm::NodeStateCounts& counts) {
    return base::Value::Object{{"idleNodeCount", counts.idle},
                               {"leavingNodeCount", counts.leaving},
                               {"preparingNodeCount", counts.preparing},
                               {"runningNodeCount", counts.running},
                               {"unusableNodeCount", counts.unusable}};
}

base::Value to_value(const store::Cluster& cluster, const std::string& subscription,
                     const slurm::ClusterView& view, base::Value errors) {
    const auto created = base::to_iso8601(cluster.creation_time);
    const auto& key_text = cluster.admin_user_ssh_public_key;
    return base::Value::Object{
        {"allocationState", slurm::to_string(view.allocation_state)},
        {"allocationStateTransitionTime",
         base::to_iso8601(cluster.allocation_state_transition_time)},
        {"creationTime", created},
        {"currentNodeCount", view.current_node_count},
        {"errors", std::move(errors)},
        {"id", status::cluster_id(subscription, cluster.key)},
        {"name", cluster.key.cluster},
        {"nodeSetup", cluster.properties["nodeSetup"]},
        {"nodeStateCounts", node_state_counts(view.counts)},
        {"provisioningState", "succeeded"},
        {"provisioningStateTransitionTime", created},
        {"resourceGroup", cluster.key.group},
        {"scaling", base::word_of(cluster.scaling)},
        {"scaleSettings", base::to_value(cluster.scale)},
        {"subnet", nullptr},
        {"type", "Microsoft.BatchAI/workspaces/clusters"},
        {"userAccountSettings",
         base::Value::Object{
             {"adminUserName", cluster.admin_user_name},
             {"adminUserPassword", nullptr},
             {"adminUserSshPublicKey", key_text.empty() ? base::Value() : base::Value(key_text)}}},
        {"virtualMachineConfiguration", nullptr},
        {"vmPriority", base::word_of(cluster.vm_priority)},
        {"vmSize", base::upper(cluster.vm_size)}};
}

// Names each node that cannot be used, with Slurm's reason.
base::Value node_errors(const slurm::ClusterView& view) {
    if (view.unusable.empty()) return {};
    base::Value::Array errors;
    for (const auto& node : view.unusable) {
        const auto why = node.reason.empty() ? std::string("Slurm names no reason") : node.reason;
        errors.push_back(base::Value::Object{
            {"code", node.did_not_start ? "NodeDidNotStart" : "NodeUnusable"},
            {"details",
             base::Value::Array{base::Value::Object{{"name", "Node"}, {"value", node.name}},
                                base::Value::Object{{"name", "Reason"}, {"value", why}}}},
            {"message", node.did_not_start
                            ? fmt::format("node {} did not come up: {}", node.name, why)
                            : fmt::format("node {} cannot be used: {}", node.name, why)}});
    }
    return errors;
}

std::optional<slurm::Assignment> assignment_of(const store::Store& store,
                                               const store::Cluster& cluster) {
    if (cluster.scaling != store::Scaling::power_saving) return std::nullopt;
    return slurm::Assignment{.nodes = {cluster.nodes.begin(), cluster.nodes.end()},
                             .leaving = {cluster.leaving.begin(), cluster.leaving.end()},
                             .others = nodes_of_others(store, cluster.key)};
}

// Node lists by partition and constraint. Slurm is asked once for each.
class Nodes {
  public:
    explicit Nodes(const slurm::Client& client) : client_(client) {}

    const base::Result<std::vector<slurm::NodeStatus>>& of(const slurm::NodeFilter& filter) {
        const auto key = std::pair(filter.partition, filter.constraint);
        const auto found = answers_.find(key);
        if (found != answers_.end()) return found->second;
        return answers_.emplace(key, client_.nodes(filter)).first->second;
    }

  private:
    const slurm::Client& client_;
    std::map<std::pair<std::string, std::string>, base::Result<std::vector<slurm::NodeStatus>>>
        answers_;
};

base::Value slurm_error(const base::Error& error) {
    cli::warn("the states of the nodes are not known: " + error.text());
    return base::Value::Array{base::Value::Object{
        {"code", "SlurmUnavailable"}, {"details", nullptr}, {"message", error.text()}}};
}

}  // namespace

namespace {

// Adds the jobs of the workspace that were sent to a cluster of `target`.
base::Result<void> add_sent(const store::Store& store, const store::WorkspaceKey& workspace,
                            const store::WorkspaceKey& target, std::vector<store::Job>& found) {
    for (const store::Experiment& experiment : TRY(store.list<store::Experiment>(workspace))) {
        const auto names = store.job_names(experiment.key);
        if (!names && names.error().exit_code == base::ExitCode::not_found) continue;
        TRY(names);
        std::vector<base::Error> unreadable;
        for (store::Job& job : TRY(store.jobs(experiment.key, *names, &unreadable))) {
            const auto cluster = job.cluster_key();
            if (cluster && cluster->parent() == target) found.push_back(std::move(job));
        }
        for (const base::Error& error : unreadable)
            cli::warn("a job is left out, because its record cannot be read: " + error.text());
    }
    return {};
}

}  // namespace

base::Result<std::vector<store::Job>> jobs_on_clusters_of(const store::Store& store,
                                                          const store::WorkspaceKey& key) {
    std::vector<store::Job> found;
    for (const store::Group& group : TRY(store.list<store::Group>({}))) {
        const auto inside = store.list<store::Workspace>(group.key);
        if (!inside && inside.error().exit_code == base::ExitCode::not_found) continue;
        for (const store::Workspace& workspace : TRY(inside)) {
            auto added = add_sent(store, workspace.key, key, found);
            if (!added && added.error().exit_code != base::ExitCode::not_found)
                return tl::unexpected(std::move(added).error());
        }
    }
    return found;
}

base::Result<base::Value::Array> cluster_values(const store::Store& store, const site::Site& site,
                                                const slurm::Client& client,
                                                const std::vector<store::Cluster>& clusters) {
    base::Value::Array values;
    if (clusters.empty()) return values;
    auto jobs = TRY(jobs_on_clusters_of(store, clusters.front().key.parent()));
    // If Slurm does not answer the ping, it is not asked again: each query would wait for its
    // deadline.
    const auto job_views =
        client.ping().and_then([&] { return status::view_jobs(store, client, std::move(jobs)); });
    const base::Value no_views = job_views ? base::Value() : slurm_error(job_views.error());
    Nodes nodes(client);
    for (const auto& cluster : clusters) {
        if (!job_views) {
            values.push_back(to_value(cluster, site.subscription, {}, no_views));
            continue;
        }
        const auto& statuses = nodes.of(node_filter(site, cluster.vm_size));
        if (!statuses) {
            values.push_back(
                to_value(cluster, site.subscription, {}, slurm_error(statuses.error())));
            continue;
        }
        const auto load = load_of(cluster.key, *job_views);
        const auto view =
            slurm::cluster_view(*statuses, load.jobs, target_of(cluster, load.wanted_nodes),
                                assignment_of(store, cluster));
        values.push_back(to_value(cluster, site.subscription, view, node_errors(view)));
    }
    return values;
}

base::Result<slurm::ClusterView> nodes_of_cluster(const store::Store& store, const site::Site& site,
                                                  const slurm::Client& client,
                                                  const store::Cluster& cluster) {
    TRY(client.ping());
    auto jobs = TRY(jobs_on_clusters_of(store, cluster.key.parent()));
    const auto job_views = TRY(status::view_jobs(store, client, std::move(jobs)));
    const auto statuses = TRY(client.nodes(node_filter(site, cluster.vm_size)));
    const auto load = load_of(cluster.key, job_views);
    return slurm::cluster_view(statuses, load.jobs, target_of(cluster, load.wanted_nodes),
                               assignment_of(store, cluster));
}

namespace {

tl::unexpected<base::Error> fault(std::string what, std::string hint = {}) {
    return base::fail(std::move(what), "nodeSetup.mountVolumes", std::move(hint),
                      base::ExitCode::bad_job_file);
}

// Parses the volumes of a record or file. The error's `where` is nodeSetup.mountVolumes.
base::Result<job::Parsed> parsed_volumes(const base::Value& volumes) {
    auto parsed = parse_volumes(volumes);
    if (!parsed) return fault(parsed.error().what, parsed.error().hint);
    return parsed;
}

}  // namespace

base::Result<void> check_cluster_volumes(const base::Value& volumes) {
    const job::Parsed parsed = TRY(parsed_volumes(volumes));
    const auto has_key = [](const std::optional<job::StorageCredentials>& credentials) {
        return credentials && credentials->account_key &&
               *credentials->account_key != job::key_placeholder;
    };
    bool keys = false;
    job::each_volume(parsed.spec->mount_volumes, [&](const auto& volume, std::size_t /*index*/) {
        if constexpr (requires { volume.credentials; }) keys = keys || has_key(volume.credentials);
    });
    if (!keys) return {};
    return fault("an account key cannot be stored with a cluster",
                 fmt::format("write {}; each job supplies the key "
                             "(AZURE_BATCHAI_STORAGE_KEY), or the site does",
                             job::key_placeholder));
}

std::optional<plan::SetupTask> setup_task_of(const store::Cluster& cluster) {
    const base::Value& task = cluster.properties["nodeSetup"]["setupTask"];
    if (task.is_null()) return std::nullopt;
    const auto text = [](const base::Value& value) {
        const std::string* const string = value.string();
        return string == nullptr ? std::string() : *string;
    };
    plan::SetupTask out{.command_line = text(task["commandLine"]),
                        .std_out_err_path_prefix = text(task["stdOutErrPathPrefix"]),
                        .std_out_err_path_suffix = text(task["stdOutErrPathSuffix"]),
                        .environment = {}};
    if (const auto* variables = task["environmentVariables"].array()) {
        for (const base::Value& variable : *variables)
            out.environment.push_back({text(variable["name"]), text(variable["value"])});
    }
    return out;
}

base::Result<job::MountVolumes> cluster_volumes(const store::Cluster& cluster,
                                                const std::optional<job::StorageAccount>& account) {
    const base::Value& volumes = cluster.properties["nodeSetup"]["mountVolumes"];
    if (volumes.is_null()) return job::MountVolumes{};
    job::Parsed parsed = TRY(parsed_volumes(volumes));
    for (const auto& diagnostic :
         job::apply_storage_account(*parsed.spec, account, parsed.positions))
        return base::fail(diagnostic.message, "cluster " + cluster.key.cluster, diagnostic.hint,
                          base::ExitCode::bad_job_file);
    return std::move(parsed.spec->mount_volumes);
}

}  // namespace batchai::clusters
