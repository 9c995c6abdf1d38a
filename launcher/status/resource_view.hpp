// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/timestamp.hpp"
#include "cli/output/output.hpp"
#include "store/records.hpp"

// The JSON objects, ids and table columns of resources, as the Azure CLI shows them.

namespace batchai::status {

[[nodiscard]] std::string group_id(const std::string& subscription, const std::string& group);
[[nodiscard]] std::string workspace_id(const std::string& subscription,
                                       const store::WorkspaceKey& key);
[[nodiscard]] std::string experiment_id(const std::string& subscription,
                                        const store::ExperimentKey& key);
[[nodiscard]] std::string cluster_id(const std::string& subscription, const store::ClusterKey& key);
[[nodiscard]] std::string job_id(const std::string& subscription, const store::JobKey& key);
[[nodiscard]] std::string storage_account_id(const std::string& subscription,
                                             const store::StorageAccountKey& key);
[[nodiscard]] std::string file_server_id(const std::string& subscription,
                                         const store::FileServerKey& key);

[[nodiscard]] base::Value to_value(const store::Group& group, const std::string& subscription);
[[nodiscard]] base::Value to_value(const store::Workspace& workspace,
                                   const std::string& subscription);
[[nodiscard]] base::Value to_value(const store::Experiment& experiment,
                                   const std::string& subscription);

// Returns a table with a row for the value, or for each item if it is a list. The Azure CLI prints
// nothing at all for an empty list, so the table then has no headers either.
[[nodiscard]] cli::Table rows_of(
    const base::Value& value, std::vector<std::string> headers,
    const std::function<std::vector<std::string>(const base::Value&)>& row);

// These turn the value of one resource, or a list of such values, into table rows.
[[nodiscard]] cli::Table workspace_columns(const base::Value& value);
[[nodiscard]] cli::Table experiment_columns(const base::Value& value);
[[nodiscard]] cli::Table cluster_columns(const base::Value& value);
[[nodiscard]] cli::Table job_columns(const base::Value& value);
// The same columns and, if a job waits, why it does and when Slurm expects to start it.
[[nodiscard]] cli::Table waiting_job_columns(const base::Value& value);
[[nodiscard]] cli::Table file_columns(const base::Value& value);
[[nodiscard]] cli::Table node_columns(const base::Value& value);
[[nodiscard]] cli::Table image_columns(const base::Value& value);
[[nodiscard]] cli::Table file_server_columns(const base::Value& value);
[[nodiscard]] cli::Table usage_columns(const base::Value& value);
[[nodiscard]] cli::Table cluster_file_columns(const base::Value& value);

// Types and names of an ARM id: {"resourceGroups", "team"}, {"providers", "Microsoft.BatchAI"}, …
using IdParts = std::vector<std::pair<std::string, std::string>>;
// Returns nothing if the text is not an id.
[[nodiscard]] std::optional<IdParts> id_parts(std::string_view id);
// Returns the component after `kind` in an ARM id: "dev" for ("…/workspaces/dev/…", "workspaces");
// empty if there is none. Types in ids may be written in upper or lower case.
[[nodiscard]] std::string id_part(std::string_view id, std::string_view kind);

// Returns the cluster that a name or an id means. A name is that of a cluster in `own`; an id names
// its group and workspace. Ids of releases before 2018-05-01 name no workspace, which is then that
// of `own`. The subscription does not matter: there is only one. The error does not say where the
// text comes from.
[[nodiscard]] base::Result<store::ClusterKey> cluster_key(const std::string& name_or_id,
                                                          const store::WorkspaceKey& own);

}  // namespace batchai::status
