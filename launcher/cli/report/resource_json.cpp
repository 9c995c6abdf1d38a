// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/resource_json.hpp"

#include <fmt/format.h>

namespace batchai::cli {
namespace {

constexpr std::string_view provider = "Microsoft.BatchAI";

Value tags_value(const std::optional<store::Tags>& tags) {
    if (!tags) return nullptr;
    Value::Object out;
    for (const auto& [key, value] : *tags)
        out.emplace_back(key, value);
    return out;
}

}  // namespace

std::string group_id(const std::string& subscription, const std::string& group) {
    return fmt::format("/subscriptions/{}/resourceGroups/{}", subscription, group);
}

std::string workspace_id(const std::string& subscription, const store::WorkspaceKey& key) {
    return fmt::format("{}/providers/{}/workspaces/{}", group_id(subscription, key.group), provider,
                       key.workspace);
}

std::string experiment_id(const std::string& subscription, const store::ExperimentKey& key) {
    return fmt::format("{}/experiments/{}", workspace_id(subscription, key.parent()),
                       key.experiment);
}

std::string cluster_id(const std::string& subscription, const store::ClusterKey& key) {
    return fmt::format("{}/clusters/{}", workspace_id(subscription, key.parent()), key.cluster);
}

std::string job_id(const std::string& subscription, const store::JobKey& key) {
    return fmt::format("{}/jobs/{}", experiment_id(subscription, key.parent()), key.job);
}

Value to_value(const store::Group& group, const std::string& subscription) {
    return Value::Object{{"id", group_id(subscription, group.name)},
                         {"location", group.location},
                         {"managedBy", nullptr},
                         {"name", group.name},
                         {"properties", Value::Object{{"provisioningState", "Succeeded"}}},
                         {"tags", tags_value(group.tags)}};
}

Value to_value(const store::Workspace& workspace, const std::string& subscription) {
    const auto time = base::to_iso8601(workspace.creation_time);
    return Value::Object{{"creationTime", time},
                         {"id", workspace_id(subscription, workspace.key)},
                         {"location", workspace.location},
                         {"name", workspace.key.workspace},
                         {"provisioningState", "succeeded"},
                         {"provisioningStateTransitionTime", time},
                         {"resourceGroup", workspace.key.group},
                         {"tags", tags_value(workspace.tags)},
                         {"type", "Microsoft.BatchAI/workspaces"}};
}

Value to_value(const store::Experiment& experiment, const std::string& subscription) {
    const auto time = base::to_iso8601(experiment.creation_time);
    return Value::Object{{"creationTime", time},
                         {"id", experiment_id(subscription, experiment.key)},
                         {"name", experiment.key.experiment},
                         {"provisioningState", "succeeded"},
                         {"provisioningStateTransitionTime", time},
                         {"resourceGroup", experiment.key.group},
                         {"type", "Microsoft.BatchAI/workspaces/experiments"}};
}

std::string id_part(std::string_view id, std::string_view kind) {
    const auto marker = fmt::format("/{}/", kind);
    const auto start = id.find(marker);
    if (start == std::string_view::npos) return "";
    const auto rest = id.substr(start + marker.size());
    return std::string(rest.substr(0, rest.find('/')));
}

}  // namespace batchai::cli
