// SPDX-License-Identifier: GPL-2.0-or-later
#include <functional>

#include "cli/report/resource_json.hpp"
#include "image/progress.hpp"

namespace batchai::cli {
namespace {

using Row = std::vector<std::string>;

std::string text(const Value& value) {
    if (const auto* string = value.string()) return *string;
    if (const auto* integer = value.integer()) return std::to_string(*integer);
    return "";
}

Table rows_of(const Value& value, std::vector<std::string> headers,
              const std::function<Row(const Value&)>& row) {
    Table table{std::move(headers), {}};
    if (const auto* items = value.array()) {
        // The Azure CLI prints nothing at all for an empty list.
        if (items->empty()) return {};
        for (const auto& item : *items)
            table.rows.push_back(row(item));
    } else {
        table.rows.push_back(row(value));
    }
    return table;
}

std::string state_of(const Value& item, std::string_view key) {
    const auto provisioning = text(item["provisioningState"]);
    return provisioning == "deleting" ? provisioning : text(item[key]);
}

}  // namespace

Table workspace_columns(const Value& value) {
    return rows_of(value, {"Name", "Resource Group", "Location", "State"}, [](const Value& item) {
        return Row{text(item["name"]), text(item["resourceGroup"]), text(item["location"]),
                   text(item["provisioningState"])};
    });
}

Table experiment_columns(const Value& value) {
    return rows_of(value, {"Name", "Resource Group", "Workspace", "State"}, [](const Value& item) {
        return Row{text(item["name"]), text(item["resourceGroup"]),
                   id_part(text(item["id"]), "workspaces"), text(item["provisioningState"])};
    });
}

Table cluster_columns(const Value& value) {
    return rows_of(value,
                   {"Name", "Resource Group", "Workspace", "VM Size", "State", "Idle", "Running",
                    "Preparing", "Leaving", "Unusable"},
                   [](const Value& item) {
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

Table job_columns(const Value& value) {
    return rows_of(value,
                   {"Name", "Cluster", "Cluster RG", "Cluster Workspace", "Tool", "Nodes", "State",
                    "Exit code"},
                   [](const Value& item) {
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

Table image_columns(const Value& value) {
    return rows_of(value, {"Image", "Digest", "Size", "Last Used", "Shared", "In Use"},
                   [](const Value& item) {
                       const auto yes = [&](std::string_view key) {
                           const auto* flag = item[key].boolean();
                           return std::string(flag != nullptr && *flag ? "yes" : "no");
                       };
                       const auto* bytes = item["size"].integer();
                       // As much of the digest as `image rm` wants, and people can compare.
                       return Row{text(item["image"]),
                                  text(item["digest"]).substr(0, 19),
                                  image::size_text(bytes == nullptr ? 0 : *bytes),
                                  text(item["lastUsed"]).substr(0, 19),
                                  yes("shared"),
                                  yes("inUse")};
                   });
}

Table node_columns(const Value& value) {
    return rows_of(value, {"ID", "IP", "SSH Port"}, [](const Value& item) {
        return Row{text(item["nodeId"]), text(item["ipAddress"]), text(item["port"])};
    });
}

Table file_columns(const Value& value) {
    return rows_of(value, {"Name", "Type", "Size", "Modified"}, [](const Value& item) {
        return Row{text(item["name"]), text(item["fileType"]), text(item["contentLength"]),
                   text(item["lastModified"])};
    });
}

}  // namespace batchai::cli
