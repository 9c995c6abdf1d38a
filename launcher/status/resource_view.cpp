// SPDX-License-Identifier: GPL-2.0-or-later
#include "status/resource_view.hpp"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "base/text.hpp"
#include "image/progress.hpp"
#include "job/syntax/utf8.hpp"

namespace batchai::status {

namespace {

constexpr std::string_view provider = "Microsoft.BatchAI";

base::Value tags_value(const std::optional<store::Tags>& tags) {
    if (!tags) return nullptr;
    base::Value::Object out;
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

std::string storage_account_id(const std::string& subscription,
                               const store::StorageAccountKey& key) {
    return fmt::format("{}/providers/Microsoft.Storage/storageAccounts/{}",
                       group_id(subscription, key.group), key.account);
}

std::string file_server_id(const std::string& subscription, const store::FileServerKey& key) {
    return fmt::format("{}/fileServers/{}", workspace_id(subscription, key.parent()),
                       key.file_server);
}

base::Value to_value(const store::Group& group, const std::string& subscription) {
    return base::Value::Object{
        {"id", group_id(subscription, group.key.group)},
        {"location", group.location},
        {"managedBy", nullptr},
        {"name", group.key.group},
        {"properties", base::Value::Object{{"provisioningState", "Succeeded"}}},
        {"tags", tags_value(group.tags)}};
}

base::Value to_value(const store::Workspace& workspace, const std::string& subscription) {
    const auto time = base::to_iso8601(workspace.creation_time);
    return base::Value::Object{{"creationTime", time},
                               {"id", workspace_id(subscription, workspace.key)},
                               {"location", workspace.location},
                               {"name", workspace.key.workspace},
                               {"provisioningState", "succeeded"},
                               {"provisioningStateTransitionTime", time},
                               {"resourceGroup", workspace.key.group},
                               {"tags", tags_value(workspace.tags)},
                               {"type", "Microsoft.BatchAI/workspaces"}};
}

base::Value to_value(const store::Experiment& experiment, const std::string& subscription) {
    const auto time = base::to_iso8601(experiment.creation_time);
    return base::Value::Object{{"creationTime", time},
                               {"id", experiment_id(subscription, experiment.key)},
                               {"name", experiment.key.experiment},
                               {"provisioningState", "succeeded"},
                               {"provisioningStateTransitionTime", time},
                               {"resourceGroup", experiment.key.group},
                               {"type", "Microsoft.BatchAI/workspaces/experiments"}};
}

std::optional<IdParts> id_parts(std::string_view id) {
    if (!id.starts_with('/')) return std::nullopt;
    const auto components = base::split(id.substr(1), '/');
    if (components.size() % 2 != 0) return std::nullopt;
    IdParts parts;
    for (std::size_t i = 0; i < components.size(); i += 2) {
        if (components[i].empty() || components[i + 1].empty()) return std::nullopt;
        parts.emplace_back(components[i], components[i + 1]);
    }
    return parts;
}

std::string id_part(std::string_view id, std::string_view kind) {
    const auto parts = id_parts(id).value_or(IdParts());
    const auto found = std::find_if(parts.begin(), parts.end(), [&](const auto& part) {
        return base::lower(part.first) == base::lower(kind);
    });
    return found == parts.end() ? "" : found->second;
}

base::Result<store::ClusterKey> cluster_key(const std::string& name_or_id,
                                            const store::WorkspaceKey& own) {
    if (name_or_id.find('/') == std::string::npos)
        return store::ClusterKey{own.group, own.workspace, name_or_id};
    const auto parts = id_parts(name_or_id);
    store::ClusterKey key{id_part(name_or_id, "resourceGroups"), id_part(name_or_id, "workspaces"),
                          id_part(name_or_id, "clusters")};
    const bool of_cluster = parts && base::lower(parts->back().first) == "clusters";
    if (!of_cluster || key.group.empty())
        return base::fail(
            fmt::format("\"{}\" is neither the name nor the id of a cluster",
                        job::printable(name_or_id)),
            {},
            fmt::format("an id looks like {}",
                        cluster_id("SUBSCRIPTION", {"GROUP", "WORKSPACE", "CLUSTER"})),
            base::ExitCode::usage);
    if (key.workspace.empty()) key.workspace = own.workspace;
    return key;
}

namespace {

using Row = std::vector<std::string>;

std::string text(const base::Value& value) {
    if (const auto* string = value.string()) return *string;
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    return "";
}

std::string state_of(const base::Value& item, std::string_view key) {
    const auto provisioning = text(item["provisioningState"]);
    return provisioning == "deleting" ? provisioning : text(item[key]);
}

}  // namespace

cli::Table rows_of(const base::Value& value, std::vector<std::string> headers,
                   const std::function<std::vector<std::string>(const base::Value&)>& row) {
    cli::Table table{std::move(headers), {}};
    if (const auto* items = value.array()) {
        if (items->empty()) return {};
        for (const auto& item : *items)
            table.rows.push_back(row(item));
    } else {
        table.rows.push_back(row(value));
    }
    return table;
}

cli::Table workspace_columns(const base::Value& value) {
    return rows_of(value, {"Name", "Resource Group", "Location", "State"},
                   [](const base::Value& item) {
                       return Row{text(item["name"]), text(item["resourceGroup"]),
                                  text(item["location"]), text(item["provisioningState"])};
                   });
}

cli::Table experiment_columns(const base::Value& value) {
    return rows_of(
        value, {"Name", "Resource Group", "Workspace", "State"}, [](const base::Value& item) {
            return Row{text(item["name"]), text(item["resourceGroup"]),
                       id_part(text(item["id"]), "workspaces"), text(item["provisioningState"])};
        });
}

cli::Table cluster_columns(const base::Value& value) {
    return rows_of(value,
                   {"Name", "Resource Group", "Workspace", "VM Size", "State", "Idle", "Running",
                    "Preparing", "Leaving", "Unusable"},
                   [](const base::Value& item) {
                       const auto& counts = item["nodeStateCounts"];
                       return Row{text(item["name"]),
                                  text(item["resourceGroup"]),
                                  id_part(text(item["id"]), "workspaces"),
                                  text(item["vmSize"]),
                                  state_of(item, "allocationState"),
                                  text(counts["idleNodeCount"]),
                                  text(counts["runningNodeCount"]),
                                  text(counts["preparingNodeCount"]),
                                  text(counts["leavingNodeCount"]),
                                  text(counts["unusableNodeCount"])};
                   });
}

cli::Table job_columns(const base::Value& value) {
    return rows_of(value,
                   {"Name", "Cluster", "Cluster RG", "Cluster Workspace", "Tool", "Nodes", "State",
                    "Exit code"},
                   [](const base::Value& item) {
                       const auto cluster = text(item["cluster"]["id"]);
                       return Row{text(item["name"]),
                                  id_part(cluster, "clusters"),
                                  text(item["cluster"]["resourceGroup"]),
                                  id_part(cluster, "workspaces"),
                                  text(item["toolType"]),
                                  text(item["nodeCount"]),
                                  state_of(item, "executionState"),
                                  text(item["executionInfo"]["exitCode"])};
                   });
}

cli::Table waiting_job_columns(const base::Value& value) {
    cli::Table table = job_columns(value);
    std::vector<const base::Value*> reasons;
    if (const auto* items = value.array()) {
        for (const auto& item : *items)
            reasons.push_back(&item["pendingReason"]);
    } else {
        reasons.push_back(&value["pendingReason"]);
    }
    const bool any = std::any_of(reasons.begin(), reasons.end(),
                                 [](const base::Value* reason) { return !reason->is_null(); });
    if (!any) return table;
    table.headers.insert(table.headers.end(), {"Why It Waits", "Expected Start"});
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
        const base::Value& reason = *reasons[i];
        const auto start = text(reason["expectedStart"]).substr(0, 19);
        table.rows[i].push_back(job::printable(text(reason["message"])));
        table.rows[i].push_back(reason.is_null() || !start.empty() ? start : "unknown");
    }
    return table;
}

cli::Table image_columns(const base::Value& value) {
    return rows_of(value, {"Image", "Digest", "Size", "Last Used", "Shared", "In Use"},
                   [](const base::Value& item) {
                       const auto yes = [&](std::string_view key) {
                           const auto* flag = item[key].boolean();
                           return std::string(flag == nullptr ? "" : *flag ? "yes" : "no");
                       };
                       const auto* bytes = item["size"].integer();
                       // Shows as much of the digest as `image rm` needs and people can compare.
                       return Row{text(item["image"]),
                                  text(item["digest"]).substr(0, 19),
                                  base::size_text(bytes == nullptr ? 0 : *bytes),
                                  text(item["lastUsed"]).substr(0, 19),
                                  yes("shared"),
                                  yes("inUse")};
                   });
}

cli::Table node_columns(const base::Value& value) {
    return rows_of(value, {"ID", "IP", "SSH Port"}, [](const base::Value& item) {
        return Row{text(item["nodeId"]), text(item["ipAddress"]), text(item["port"])};
    });
}

cli::Table file_columns(const base::Value& value) {
    return rows_of(value, {"Name", "Type", "Size", "Modified"}, [](const base::Value& item) {
        return Row{text(item["name"]), text(item["fileType"]), text(item["contentLength"]),
                   text(item["lastModified"])};
    });
}

cli::Table file_server_columns(const base::Value& value) {
    return rows_of(
        value,
        {"Name", "Resource Group", "Size", "Disks", "Public IP", "Internal IP", "Mount Point"},
        [](const base::Value& item) {
            const auto& disks = item["dataDisks"];
            const auto& mount = item["mountSettings"];
            return Row{text(item["name"]),
                       text(item["resourceGroup"]),
                       text(item["vmSize"]),
                       disks.is_null() ? ""
                                       : fmt::format("{} x {} Gb", text(disks["diskCount"]),
                                                     text(disks["diskSizeInGb"])),
                       text(mount["fileServerPublicIp"]),
                       text(mount["fileServerInternalIp"]),
                       text(mount["mountPoint"])};
        });
}

cli::Table usage_columns(const base::Value& value) {
    return rows_of(value, {"Value", "Usage", "Limit"}, [](const base::Value& item) {
        return Row{text(item["name"]["localizedValue"]), text(item["currentValue"]),
                   text(item["limit"])};
    });
}

cli::Table cluster_file_columns(const base::Value& value) {
    return rows_of(value, {"Name", "Is directory", "Size"}, [](const base::Value& item) {
        const auto* directory = item["is_directory"].boolean();
        return Row{text(item["name"]), directory != nullptr && *directory ? "yes" : "no",
                   text(item["size"])};
    });
}

}  // namespace batchai::status
