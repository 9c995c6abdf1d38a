// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/records.hpp"

#include <cstdint>

#include <fmt/format.h>

#include "base/utf8.hpp"

namespace batchai::store {

namespace {

bool is_allowed(Kind kind, char c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
    return c == '-' || c == '_' || (c == '.' && kind == Kind::group);
}

// Returns the character at a place, for a message: with its code point if it may not be visible.
std::string shown(std::string_view name, std::size_t at) {
    const std::size_t length = base::utf8_sequence(name, at);
    if (length == 0) return fmt::format("byte 0x{:02x}", static_cast<unsigned char>(name[at]));
    const std::string_view character = name.substr(at, length);
    const char32_t code = base::utf8_decode(character);
    if (base::is_unprintable(code))
        return fmt::format("U+{:04X}", static_cast<std::uint32_t>(code));
    return fmt::format("\"{}\"", character);
}

}  // namespace

std::string_view kind_name(Kind kind) {
    switch (kind) {
        case Kind::group:
            return "resource group";
        case Kind::workspace:
            return "workspace";
        case Kind::experiment:
            return "experiment";
        case Kind::cluster:
            return "cluster";
        case Kind::job:
            return "job";
        case Kind::storage_account:
            return "storage account";
        case Kind::file_server:
            return "file server";
    }
    return "resource";
}

std::optional<ClusterKey> Job::cluster_key() const {
    if (cluster.empty()) return std::nullopt;
    return ClusterKey{cluster_group.empty() ? key.group : cluster_group,
                      cluster_workspace.empty() ? key.workspace : cluster_workspace, cluster};
}

void Job::set_cluster(const ClusterKey& other) {
    cluster = other.cluster;
    const bool own = other.group == key.group && other.workspace == key.workspace;
    cluster_group = own ? "" : other.group;
    cluster_workspace = own ? "" : other.workspace;
}

base::Result<void> check_name(Kind kind, std::string_view name) {
    const std::size_t longest = kind == Kind::group ? 90 : 64;
    const std::string where = fmt::format("{} name", kind_name(kind));
    const std::string hint =
        fmt::format("a {} has 1 to {} letters, digits, \"-\"{} \"_\"{}", where, longest,
                    kind == Kind::group ? "," : " and", kind == Kind::group ? " and \".\"" : "");
    const auto refuse = [&](std::string what) {
        return base::fail(std::move(what), where, hint, base::ExitCode::usage);
    };
    if (name.empty()) return refuse("is empty");
    // Before the first one that is not allowed, each character is one byte.
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (!is_allowed(kind, name[i]))
            return refuse(fmt::format("{} at character {} is not allowed", shown(name, i), i + 1));
    }
    if (name.size() > longest)
        return refuse(fmt::format("has {} characters, {} are allowed", name.size(), longest));
    if (name == "." || name == "..") return refuse(fmt::format("\"{}\" is not allowed", name));
    return {};
}

}  // namespace batchai::store

namespace batchai::base {

using store::ArrayRun;
using store::Cluster;
using store::Experiment;
using store::FileServer;
using store::Group;
using store::Job;
using store::StorageAccount;
using store::Workspace;

template <>
struct RecordOf<Group> {
    static constexpr auto fields =
        std::tuple{field("location", &Group::location), field("tags", &Group::tags),
                   field("creationTime", &Group::creation_time)};
};

template <>
struct RecordOf<Workspace> {
    static constexpr auto fields =
        std::tuple{field("location", &Workspace::location), field("tags", &Workspace::tags),
                   field("creationTime", &Workspace::creation_time)};
};

template <>
struct RecordOf<Experiment> {
    static constexpr auto fields = std::tuple{field("creationTime", &Experiment::creation_time)};
};

template <>
struct RecordOf<Cluster> {
    static constexpr auto fields = std::tuple{
        field("uuid", &Cluster::uuid).or_missing(),
        field("vmSize", &Cluster::vm_size),
        field("vmPriority", &Cluster::vm_priority),
        field("scaleSettings", &Cluster::scale),
        field("adminUserName", &Cluster::admin_user_name),
        field("adminUserSshPublicKey", &Cluster::admin_user_ssh_public_key),
        field("properties", &Cluster::properties),
        field("creationTime", &Cluster::creation_time),
        field("allocationStateTransitionTime", &Cluster::allocation_state_transition_time),
        field("scaling", &Cluster::scaling).or_missing(),
        field("nodes", &Cluster::nodes).or_missing(),
        field("leaving", &Cluster::leaving).or_missing(),
        field("heldJobs", &Cluster::held_jobs).or_missing()};
};

template <>
struct RecordOf<ArrayRun> {
    static constexpr auto fields =
        std::tuple{field("slurmJobId", &ArrayRun::slurm_job_id), field("tasks", &ArrayRun::tasks),
                   field("attemptsBefore", &ArrayRun::attempts_before).within(0)};
};

template <>
struct RecordOf<Job> {
    static constexpr auto fields =
        std::tuple{field("uuid", &Job::uuid),
                   field("subscription", &Job::subscription),
                   field("cluster", &Job::cluster),
                   field("clusterGroup", &Job::cluster_group).or_missing(),
                   field("clusterWorkspace", &Job::cluster_workspace).or_missing(),
                   field("toolType", &Job::tool_type),
                   field("nodeCount", &Job::node_count).within(0),
                   field("properties", &Job::properties),
                   field("planDigest", &Job::plan_digest),
                   field("slurmJobId", &Job::slurm_job_id),
                   field("array", &Job::is_array).or_missing(),
                   field("arrayIndexes", &Job::array).or_missing(),
                   field("arrayRuns", &Job::array_runs).or_missing(),
                   field("creationTime", &Job::creation_time),
                   field("terminationRequested", &Job::termination_requested)};
};

template <>
struct RecordOf<StorageAccount> {
    static constexpr auto fields =
        std::tuple{field("location", &StorageAccount::location), field("sku", &StorageAccount::sku),
                   field("tags", &StorageAccount::tags),
                   field("creationTime", &StorageAccount::creation_time)};
};

template <>
struct RecordOf<FileServer> {
    static constexpr auto fields =
        std::tuple{field("vmSize", &FileServer::vm_size),
                   field("diskCount", &FileServer::disk_count).within(0),
                   field("diskSizeInGb", &FileServer::disk_size).within(0),
                   field("cachingType", &FileServer::caching_type),
                   field("storageSku", &FileServer::storage_sku),
                   field("adminUserName", &FileServer::admin_user_name),
                   field("creationTime", &FileServer::creation_time)};
};

}  // namespace batchai::base

namespace batchai::store {

namespace {

using base::Result;
using base::Value;

constexpr std::string_view group_schema = "batchai-group/v1";
constexpr std::string_view workspace_schema = "batchai-workspace/v1";
constexpr std::string_view experiment_schema = "batchai-experiment/v1";
constexpr std::string_view storage_account_schema = "batchai-storage-account/v1";
constexpr std::string_view file_server_schema = "batchai-file-server/v1";

// A schema whose older version can also be read.
struct Versions {
    std::string_view current;
    std::string_view older;
};
constexpr Versions cluster_schema{.current = "batchai-cluster/v2", .older = "batchai-cluster/v1"};
constexpr Versions job_schema{.current = "batchai-job/v2", .older = "batchai-job/v1"};

constexpr const char* damaged_hint = "restore the file, or delete the resource and create it anew";

tl::unexpected<base::Error> damaged(const std::string& what, const std::string& where) {
    return base::fail("damaged record: " + what, where, damaged_hint);
}

// Parses a record, which must be an object with a schema.
Result<Value> parse(std::string_view text, const std::string& path) {
    auto root = base::parse_json(text, path);
    if (!root) return damaged(root.error().what, root.error().where);
    if (!root->is_object()) return damaged("the record is not an object", path);
    if (!(*root)["schema"].is_string()) return damaged("\"schema\" is missing", path);
    return root;
}

template <typename T>
Result<T> bind(const Value& root, std::string_view schema, const std::string& path, T with_key) {
    const std::string& found = *root["schema"].string();
    if (found != schema)
        return damaged(
            fmt::format("\"schema\" is \"{}\", this program reads \"{}\"", found, schema), path);
    auto record = base::from_value<T>(root, std::move(with_key));
    if (!record) return damaged(record.error().what, path);
    return record;
}

template <typename T>
Result<T> read(std::string_view text, std::string_view schema, const std::string& path,
               T with_key) {
    const Value root = TRY(parse(text, path));
    return bind(root, schema, path, std::move(with_key));
}

// Converts a record of the older version. Version 1 kept the properties as a string of JSON text,
// which was empty if there were none.
Result<Value> migrated(Value root, const Versions& schema, const std::string& path) {
    if (*root["schema"].string() != schema.older) return root;
    const std::string* const text = root["propertiesJson"].string();
    if (text == nullptr) return damaged("\"propertiesJson\" is not a string", path);
    Value properties;
    if (!text->empty()) {
        auto parsed = base::parse_json(*text, "propertiesJson");
        if (!parsed)
            return damaged(fmt::format("\"propertiesJson\" is not JSON: {}", parsed.error().what),
                           path);
        properties = std::move(*parsed);
    }
    root.set("schema", schema.current);
    root.set("properties", std::move(properties));
    return root;
}

template <typename T>
Result<T> read(std::string_view text, const Versions& schema, const std::string& path, T with_key) {
    const Value root = TRY(parse(text, path).and_then([&](Value found) {
        return migrated(std::move(found), schema, path);
    }));
    return bind(root, schema.current, path, std::move(with_key));
}

}  // namespace

base::Result<std::string> readable(std::string json) {
    if (base::parse_json(json, "the record")) return json;
    return base::fail("a name, tag or other text of the command is not UTF-8", {},
                      "nothing was written; give the text in UTF-8", base::ExitCode::usage);
}

std::string to_json(const Group& group) {
    return base::to_record(group, group_schema);
}

std::string to_json(const Workspace& workspace) {
    return base::to_record(workspace, workspace_schema);
}

std::string to_json(const Experiment& experiment) {
    return base::to_record(experiment, experiment_schema);
}

std::string to_json(const Cluster& cluster) {
    return base::to_record(cluster, cluster_schema.current);
}

std::string to_json(const Job& job) {
    return base::to_record(job, job_schema.current);
}

std::string to_json(const StorageAccount& account) {
    return base::to_record(account, storage_account_schema);
}

std::string to_json(const FileServer& server) {
    return base::to_record(server, file_server_schema);
}

Result<Group> group_from_json(std::string_view text, const std::string& path,
                              const std::string& name) {
    Group group;
    group.name = name;
    return read(text, group_schema, path, std::move(group));
}

Result<Workspace> workspace_from_json(std::string_view text, const std::string& path,
                                      const WorkspaceKey& key) {
    Workspace workspace;
    workspace.key = key;
    return read(text, workspace_schema, path, std::move(workspace));
}

Result<Experiment> experiment_from_json(std::string_view text, const std::string& path,
                                        const ExperimentKey& key) {
    Experiment experiment;
    experiment.key = key;
    return read(text, experiment_schema, path, std::move(experiment));
}

Result<Cluster> cluster_from_json(std::string_view text, const std::string& path,
                                  const ClusterKey& key) {
    Cluster blank;
    blank.key = key;
    blank.scale = {};
    Cluster cluster = TRY(read(text, cluster_schema, path, std::move(blank)));
    if (cluster.scale.manual.has_value() == cluster.scale.auto_scale.has_value())
        return damaged("\"scaleSettings\" must hold exactly one of \"manual\" and \"autoScale\"",
                       path);
    return cluster;
}

Result<Job> job_from_json(std::string_view text, const std::string& path, const JobKey& key) {
    Job job;
    job.key = key;
    return read(text, job_schema, path, std::move(job));
}

Result<StorageAccount> storage_account_from_json(std::string_view text, const std::string& path,
                                                 const StorageAccountKey& key) {
    StorageAccount account;
    account.key = key;
    return read(text, storage_account_schema, path, std::move(account));
}

Result<FileServer> file_server_from_json(std::string_view text, const std::string& path,
                                         const FileServerKey& key) {
    FileServer server;
    server.key = key;
    return read(text, file_server_schema, path, std::move(server));
}

}  // namespace batchai::store
