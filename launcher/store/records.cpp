// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/records.hpp"

#include <cstdint>
#include <type_traits>

#include <fmt/format.h>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace batchai::store {

namespace {

bool is_allowed(const Kind& kind, char c) {
    if (base::is_letter(c) || base::is_digit(c)) return true;
    return c == '-' || c == '_' || (c == '.' && kind.dot_in_name);
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

base::Result<void> check_name(const Kind& kind, std::string_view name) {
    const std::string where = fmt::format("{} name", kind.name);
    const std::string hint =
        fmt::format("a {} has 1 to {} letters, digits, {}", where, kind.longest_name,
                    kind.dot_in_name ? R"("-", "_" and ".")" : R"("-" and "_")");
    const auto refuse = [&](std::string what) {
        return base::fail(std::move(what), where, hint, base::ExitCode::usage);
    };
    if (name.empty()) return refuse("is empty");
    // Before the first one that is not allowed, each character is one byte.
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (!is_allowed(kind, name[i]))
            return refuse(fmt::format("{} at character {} is not allowed", shown(name, i), i + 1));
    }
    if (name.size() > kind.longest_name)
        return refuse(
            fmt::format("has {} characters, {} are allowed", name.size(), kind.longest_name));
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
    static constexpr auto fields(auto field) {
        return std::tuple{field("location", &Group::location), field("tags", &Group::tags),
                          field("creationTime", &Group::creation_time)};
    }
};

template <>
struct RecordOf<Workspace> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("location", &Workspace::location), field("tags", &Workspace::tags),
                          field("creationTime", &Workspace::creation_time)};
    }
};

template <>
struct RecordOf<Experiment> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("creationTime", &Experiment::creation_time)};
    }
};

template <>
struct RecordOf<Cluster> {
    static constexpr auto fields(auto field) {
        return std::tuple{
            field("uuid", &Cluster::uuid),
            field("vmSize", &Cluster::vm_size),
            field("vmPriority", &Cluster::vm_priority),
            field("scaleSettings", &Cluster::scale),
            field("adminUserName", &Cluster::admin_user_name),
            field("adminUserSshPublicKey", &Cluster::admin_user_ssh_public_key),
            field("properties", &Cluster::properties),
            field("creationTime", &Cluster::creation_time),
            field("allocationStateTransitionTime", &Cluster::allocation_state_transition_time),
            field("scaling", &Cluster::scaling),
            field("nodes", &Cluster::nodes),
            field("leaving", &Cluster::leaving),
            field("heldJobs", &Cluster::held_jobs)};
    }
};

template <>
struct RecordOf<ArrayRun> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("slurmJobId", &ArrayRun::slurm_job_id),
                          field("tasks", &ArrayRun::tasks),
                          field("attemptsBefore", &ArrayRun::attempts_before).within(0)};
    }
};

template <>
struct RecordOf<Job> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("uuid", &Job::uuid),
                          field("subscription", &Job::subscription),
                          field("cluster", &Job::cluster),
                          field("clusterGroup", &Job::cluster_group),
                          field("clusterWorkspace", &Job::cluster_workspace),
                          field("toolType", &Job::tool_type),
                          field("nodeCount", &Job::node_count).within(0),
                          field("spareNodes", &Job::spare_nodes).within(0).or_missing(),
                          field("properties", &Job::properties),
                          field("planDigest", &Job::plan_digest),
                          field("slurmJobId", &Job::slurm_job_id),
                          field("array", &Job::is_array),
                          field("arrayIndexes", &Job::array),
                          field("arrayRuns", &Job::array_runs),
                          field("creationTime", &Job::creation_time),
                          field("terminationRequested", &Job::termination_requested)};
    }
};

template <>
struct RecordOf<StorageAccount> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("location", &StorageAccount::location),
                          field("sku", &StorageAccount::sku), field("tags", &StorageAccount::tags),
                          field("creationTime", &StorageAccount::creation_time)};
    }
};

template <>
struct RecordOf<FileServer> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("vmSize", &FileServer::vm_size),
                          field("diskCount", &FileServer::disk_count).within(0),
                          field("diskSizeInGb", &FileServer::disk_size).within(0),
                          field("cachingType", &FileServer::caching_type),
                          field("storageSku", &FileServer::storage_sku),
                          field("adminUserName", &FileServer::admin_user_name),
                          field("creationTime", &FileServer::creation_time)};
    }
};

}  // namespace batchai::base

namespace batchai::store {

namespace {

using base::Result;

constexpr const char* damaged_hint = "restore the file, or delete the resource and create it anew";

tl::unexpected<base::Error> damaged(const std::string& what, const std::string& where) {
    return base::fail("damaged record: " + what, where, damaged_hint);
}

}  // namespace

base::Result<std::string> readable(std::string json) {
    if (base::parse_json(json, "the record")) return json;
    return base::fail("a name, tag or other text of the command is not UTF-8", {},
                      "nothing was written; give the text in UTF-8", base::ExitCode::usage);
}

template <typename Record>
std::string to_json(const Record& record) {
    return base::to_record(record, kind<Record>.schema);
}

template <typename Record>
Result<Record> from_json(std::string_view text, const std::string& path, const KeyOf<Record>& key) {
    const auto root = base::parse_json(text, path);
    if (!root) return damaged(root.error().what, root.error().where);
    if (!root->is_object()) return damaged("the record is not an object", path);
    const std::string* const schema = (*root)["schema"].string();
    if (schema == nullptr) return damaged("\"schema\" is missing", path);
    if (*schema != kind<Record>.schema)
        return damaged(fmt::format("\"schema\" is \"{}\", this program reads \"{}\"", *schema,
                                   kind<Record>.schema),
                       path);
    auto record = base::from_value<Record>(*root);
    if (!record) return damaged(record.error().what, path);
    if constexpr (std::is_same_v<Record, Cluster>) {
        if (record->scale.manual.has_value() == record->scale.auto_scale.has_value())
            return damaged(
                "\"scaleSettings\" must hold exactly one of \"manual\" and \"autoScale\"", path);
    }
    record->key = key;
    return record;
}

// The two for each kind.
#define BATCHAI_TEXT_OF(Record)                         \
    template std::string to_json(const Record& record); \
    template Result<Record> from_json(std::string_view, const std::string&, const KeyOf<Record>&);
BATCHAI_TEXT_OF(Group)
BATCHAI_TEXT_OF(Workspace)
BATCHAI_TEXT_OF(Experiment)
BATCHAI_TEXT_OF(Cluster)
BATCHAI_TEXT_OF(Job)
BATCHAI_TEXT_OF(StorageAccount)
BATCHAI_TEXT_OF(FileServer)
#undef BATCHAI_TEXT_OF

}  // namespace batchai::store
