// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/record.hpp"
#include "base/timestamp.hpp"
#include "record/job_files.hpp"

namespace batchai::store {

// A kind of resource. `kind<Job>` is that of jobs; the rows are at the end of this file.
struct Kind {
    std::string_view name;     // for messages: "resource group"
    std::string_view command;  // the word of the command line
    std::string_view schema;
    const Kind* parent;
    // The name of the directory that has all resources of one parent.
    std::string_view plural;
    // The name of the record in the resource's own directory. Empty: there is no directory, and the
    // record is the file <name>.json.
    std::string_view record;
    std::size_t longest_name = 64;
    bool dot_in_name = false;

    [[nodiscard]] bool has_directory() const { return !record.empty(); }
};

template <typename Record>
inline constexpr Kind kind{};

// Checks the name of a resource: it has 1 to 64 letters, digits, "-" and "_". The name of a
// resource group has up to 90 characters and may also contain ".", but is neither "." nor "..".
// Letters are ASCII. A valid name is one path component. The error has ExitCode::usage and says
// which character is wrong.
[[nodiscard]] base::Result<void> check_name(const Kind& kind, std::string_view name);

// The records that the store keeps of the resources, and how each is written as JSON. store.hpp
// says where the files are.

using Tags = std::map<std::string, std::string>;

// The names of a resource and of what it is in, the outermost first.
using Names = std::vector<std::string>;

// Where the groups are.
struct HomeKey {
    [[nodiscard]] static Names names() { return {}; }
};

struct GroupKey {
    std::string group;

    [[nodiscard]] static HomeKey parent() { return {}; }
    [[nodiscard]] Names names() const { return {group}; }
    auto operator<=>(const GroupKey&) const = default;
};

struct WorkspaceKey {
    std::string group;
    std::string workspace;

    [[nodiscard]] GroupKey parent() const { return {group}; }
    [[nodiscard]] Names names() const { return {group, workspace}; }
    auto operator<=>(const WorkspaceKey&) const = default;
};

struct ExperimentKey {
    std::string group;
    std::string workspace;
    std::string experiment;

    [[nodiscard]] WorkspaceKey parent() const { return {group, workspace}; }
    [[nodiscard]] Names names() const { return {group, workspace, experiment}; }
    auto operator<=>(const ExperimentKey&) const = default;
};

struct ClusterKey {
    std::string group;
    std::string workspace;
    std::string cluster;

    [[nodiscard]] WorkspaceKey parent() const { return {group, workspace}; }
    [[nodiscard]] Names names() const { return {group, workspace, cluster}; }
    auto operator<=>(const ClusterKey&) const = default;
};

struct JobKey {
    std::string group;
    std::string workspace;
    std::string experiment;
    std::string job;

    [[nodiscard]] ExperimentKey parent() const { return {group, workspace, experiment}; }
    [[nodiscard]] Names names() const { return {group, workspace, experiment, job}; }
    auto operator<=>(const JobKey&) const = default;
};

struct StorageAccountKey {
    std::string group;
    std::string account;

    [[nodiscard]] GroupKey parent() const { return {group}; }
    [[nodiscard]] Names names() const { return {group, account}; }
    auto operator<=>(const StorageAccountKey&) const = default;
};

struct FileServerKey {
    std::string group;
    std::string workspace;
    std::string file_server;

    [[nodiscard]] WorkspaceKey parent() const { return {group, workspace}; }
    [[nodiscard]] Names names() const { return {group, workspace, file_server}; }
    auto operator<=>(const FileServerKey&) const = default;
};

struct Group {
    GroupKey key;
    std::string location;
    std::optional<Tags> tags;
    base::Time creation_time;

    bool operator==(const Group&) const = default;
};

struct Workspace {
    WorkspaceKey key;
    std::string location;
    std::optional<Tags> tags;
    base::Time creation_time;

    bool operator==(const Workspace&) const = default;
};

struct Experiment {
    ExperimentKey key;
    base::Time creation_time;

    bool operator==(const Experiment&) const = default;
};

// What a user has said of a storage account. Its shares and containers are directories, which exist
// without a record as well (site/storage_place.hpp).
struct StorageAccount {
    StorageAccountKey key;
    std::string location;
    std::string sku;
    std::optional<Tags> tags;
    base::Time creation_time;

    bool operator==(const StorageAccount&) const = default;
};

// What a user has said of a file server of the site.
struct FileServer {
    FileServerKey key;
    std::string vm_size;
    int disk_count = 0;
    int disk_size = 0;  // GB
    std::string caching_type;
    std::string storage_sku;
    std::string admin_user_name;
    base::Time creation_time;

    bool operator==(const FileServer&) const = default;
};

// What happens to the jobs on a node that a resize removes.
enum class NodeDeallocationOption { requeue, terminate, wait_for_job_completion };

struct ManualScale {
    int target_node_count = 0;
    NodeDeallocationOption node_deallocation_option = NodeDeallocationOption::requeue;

    bool operator==(const ManualScale&) const = default;
};

struct AutoScale {
    int minimum_node_count = 0;
    int maximum_node_count = 0;
    int initial_node_count = 0;

    bool operator==(const AutoScale&) const = default;
};

// Exactly one of the two is set. A resize may change which one.
struct ScaleSettings {
    std::optional<ManualScale> manual;
    std::optional<AutoScale> auto_scale;

    bool operator==(const ScaleSettings&) const = default;
};

// What the target of a cluster does: it limits the jobs that are placed on the cluster, and with
// power saving Slurm's nodes are also powered up and down.
enum class Scaling { cap, power_saving };

enum class VmPriority { dedicated, low_priority };

struct Cluster {
    ClusterKey key;
    std::string uuid;     // new for each creation
    std::string vm_size;  // as the user wrote it
    VmPriority vm_priority = VmPriority::dedicated;
    ScaleSettings scale{.manual = ManualScale{}, .auto_scale = {}};
    std::string admin_user_name;
    std::string admin_user_ssh_public_key;  // empty: none
    // The other "properties" of cluster.json that the cluster keeps: "nodeSetup", without secrets.
    // Null if there are none.
    base::Value properties;
    base::Time creation_time;
    base::Time allocation_state_transition_time;
    Scaling scaling = Scaling::cap;
    // With power saving: the nodes of the cluster, and those that had to leave it.
    std::vector<std::string> nodes;
    std::vector<std::string> leaving;
    // Slurm's ids of the jobs that are held because they ask for more nodes than the target.
    std::vector<std::string> held_jobs;

    bool operator==(const Cluster&) const = default;
};

// A Slurm array that runs some of a job's tasks again, after those before it.
struct ArrayRun {
    std::string slurm_job_id;
    std::string tasks;        // "1,3,5-7"
    int attempts_before = 0;  // the tasks' attempts in this array are counted on from this number

    bool operator==(const ArrayRun&) const = default;
};

struct Job {
    JobKey key;
    std::string uuid;
    std::string subscription;
    std::string cluster;  // empty: none was named
    // Where the cluster is. Empty: in the group and workspace of the job.
    std::string cluster_group;
    std::string cluster_workspace;
    std::string tool_type;
    int node_count = 1;
    int spare_nodes = 0;
    // The "properties" of job.json for `show`, not expanded and without the values of secrets.
    base::Value properties;
    std::string plan_digest;   // SHA-256 of plan.json, hexadecimal
    std::string slurm_job_id;  // as sbatch printed it
    // Whether it is an array job. Slurm's id is then that of all its tasks, and also of the last.
    bool is_array = false;
    std::string array;                 // the value of its option "array": "0-99%4"
    std::vector<ArrayRun> array_runs;  // after the first, in their order
    base::Time creation_time;
    std::optional<base::Time> termination_requested;  // when the user asked to stop the job

    [[nodiscard]] int all_nodes() const { return node_count + spare_nodes; }
    // Returns nothing if the job was not sent to a named cluster.
    [[nodiscard]] std::optional<ClusterKey> cluster_key() const;
    void set_cluster(const ClusterKey& other);

    bool operator==(const Job&) const = default;
};

template <typename Record>
using KeyOf = decltype(Record::key);
template <typename Record>
using ParentKeyOf = decltype(std::declval<KeyOf<Record>>().parent());

template <>
inline constexpr Kind kind<Group>{.name = "resource group",
                                  .command = "group",
                                  .schema = "batchai-group/v1",
                                  .parent = nullptr,
                                  .plural = "groups",
                                  .record = "group.json",
                                  .longest_name = 90,
                                  .dot_in_name = true};
template <>
inline constexpr Kind kind<Workspace>{.name = "workspace",
                                      .command = "workspace",
                                      .schema = "batchai-workspace/v1",
                                      .parent = &kind<Group>,
                                      .plural = "workspaces",
                                      .record = "workspace.json"};
template <>
inline constexpr Kind kind<Experiment>{.name = "experiment",
                                       .command = "experiment",
                                       .schema = "batchai-experiment/v1",
                                       .parent = &kind<Workspace>,
                                       .plural = "experiments",
                                       .record = "experiment.json"};
template <>
inline constexpr Kind kind<Cluster>{.name = "cluster",
                                    .command = "cluster",
                                    .schema = "batchai-cluster/v2",
                                    .parent = &kind<Workspace>,
                                    .plural = "clusters",
                                    .record = {}};
template <>
inline constexpr Kind kind<Job>{.name = "job",
                                .command = "job",
                                .schema = "batchai-job/v2",
                                .parent = &kind<Experiment>,
                                .plural = "jobs",
                                .record = record::JobFiles::record_name};
template <>
inline constexpr Kind kind<StorageAccount>{.name = "storage account",
                                           .command = "storage account",
                                           .schema = "batchai-storage-account/v1",
                                           .parent = &kind<Group>,
                                           .plural = "storage-accounts",
                                           .record = {}};
template <>
inline constexpr Kind kind<FileServer>{.name = "file server",
                                       .command = "file-server",
                                       .schema = "batchai-file-server/v1",
                                       .parent = &kind<Workspace>,
                                       .plural = "file-servers",
                                       .record = {}};

// Returns the record as JSON text. The names (group, workspace, …) are not in the text, because
// they are in the path of the file.
template <typename Record>
[[nodiscard]] std::string to_json(const Record& record);

// Reads the text of a record. Refuses an unknown schema, a missing key and a wrong type. `path` is
// the file's name for the message, which says "path:line:column" for invalid JSON and names the key
// otherwise. Unknown keys are ignored, so that an older program can read what a newer one wrote.
template <typename Record>
[[nodiscard]] base::Result<Record> from_json(std::string_view text, const std::string& path,
                                             const KeyOf<Record>& key);

// Returns the text of a record if it can be read back. Text of the user that is not UTF-8 cannot,
// and a damaged record would be in the way of every command that lists it.
[[nodiscard]] base::Result<std::string> readable(std::string json);

}  // namespace batchai::store

namespace batchai::base {

template <>
struct WordsOf<store::NodeDeallocationOption> {
    using Option = store::NodeDeallocationOption;
    static constexpr auto words =
        std::array{std::pair<std::string_view, Option>{"requeue", Option::requeue},
                   std::pair<std::string_view, Option>{"terminate", Option::terminate},
                   std::pair<std::string_view, Option>{"waitforjobcompletion",
                                                       Option::wait_for_job_completion}};
};

template <>
struct WordsOf<store::Scaling> {
    static constexpr auto words = std::array{
        std::pair<std::string_view, store::Scaling>{"cap", store::Scaling::cap},
        std::pair<std::string_view, store::Scaling>{"power saving", store::Scaling::power_saving}};
};

template <>
struct WordsOf<store::VmPriority> {
    static constexpr auto words = std::array{
        std::pair<std::string_view, store::VmPriority>{"dedicated", store::VmPriority::dedicated},
        std::pair<std::string_view, store::VmPriority>{"lowpriority",
                                                       store::VmPriority::low_priority}};
};

template <>
struct RecordOf<store::ManualScale> {
    static constexpr auto fields(auto field) {
        return std::tuple{
            field("nodeDeallocationOption", &store::ManualScale::node_deallocation_option),
            field("targetNodeCount", &store::ManualScale::target_node_count).within(0)};
    }
};

template <>
struct RecordOf<store::AutoScale> {
    static constexpr auto fields(auto field) {
        return std::tuple{
            field("initialNodeCount", &store::AutoScale::initial_node_count).within(0),
            field("maximumNodeCount", &store::AutoScale::maximum_node_count).within(0),
            field("minimumNodeCount", &store::AutoScale::minimum_node_count).within(0)};
    }
};

template <>
struct RecordOf<store::ScaleSettings> {
    static constexpr auto fields(auto field) {
        return std::tuple{field("autoScale", &store::ScaleSettings::auto_scale),
                          field("manual", &store::ScaleSettings::manual)};
    }
};

}  // namespace batchai::base
