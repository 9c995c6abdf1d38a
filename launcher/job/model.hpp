// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/record.hpp"
#include "job/toolkit_settings.hpp"

// The contents of a job.json as typed values: `properties` of Batch AI's schema 2018-05-01, and the
// keys that only the two older schemas have. Strings are as written: no variable is expanded. A
// plain member with a default always holds a value. std::optional means that the file may leave the
// key out and that no default is known before the job is planned.
namespace batchai::job {

enum class SchemaVersion : std::uint8_t { v2017_09_01_preview, v2018_03_01, v2018_05_01 };

enum class SchedulingPriority : std::uint8_t { low, normal, high };

// A secret in a key vault, given by the vault's id and the secret's URL.
struct KeyVaultSecretReference {
    std::string source_vault_id;
    std::string secret_url;
    bool operator==(const KeyVaultSecretReference&) const = default;
};

// In the structs below with from_env and from_file, at most one of the value, its reference and
// these two is in the file. They name a variable and a file of the user's, from which
// submit/local_secrets.hpp reads the value at submission.

// If all are absent, the credentials come from the site.
struct StorageCredentials {
    std::optional<std::string> account_key;  // secret
    std::optional<KeyVaultSecretReference> account_key_secret_reference;
    std::optional<std::string> from_env;
    std::optional<std::string> from_file;
    bool operator==(const StorageCredentials&) const = default;
};

// In all kinds of mount, key is the kind's key in "mountVolumes", and mount_error is Batch AI's
// code of the failure when a mount of this kind fails. relative_mount_path is a relative path of at
// least one component. No component is "." or "..". The path has no backslash, no control
// character, and no doubled or trailing slash. It is neither equal to nor below the path of another
// mount in the same file.
struct AzureFileShare {
    static constexpr std::string_view key = "azureFileShares";
    static constexpr std::string_view mount_error = "AZFMountError";
    std::optional<std::string> account_name;  // set from the URL by apply_storage_account
    std::string azure_file_url;  // https://<account>.file.core.windows.net/<share>[/…]
    std::optional<StorageCredentials> credentials;
    std::string relative_mount_path;
    std::string file_mode = "0777";
    std::string directory_mode = "0777";
    bool operator==(const AzureFileShare&) const = default;
};

struct AzureBlobFileSystem {
    static constexpr std::string_view key = "azureBlobFileSystems";
    static constexpr std::string_view mount_error = "BFSMountError";
    std::string account_name;
    std::string container_name;
    std::optional<StorageCredentials> credentials;
    std::string relative_mount_path;
    std::optional<std::string> mount_options;
    bool operator==(const AzureBlobFileSystem&) const = default;
};

struct FileServerMount {
    static constexpr std::string_view key = "fileServers";
    static constexpr std::string_view mount_error = "MountError";
    std::string file_server_id;                   // a name or an ARM id
    std::optional<std::string> source_directory;  // absent: the whole server
    std::string relative_mount_path;
    std::optional<std::string> mount_options;
    bool operator==(const FileServerMount&) const = default;
};

struct UnmanagedFileSystem {
    static constexpr std::string_view key = "unmanagedFileSystems";
    static constexpr std::string_view mount_error = "MountError";
    std::string mount_command;  // names a mount that the site defines; never run as a command
    std::string relative_mount_path;
    bool operator==(const UnmanagedFileSystem&) const = default;
};

struct MountVolumes {
    std::vector<AzureFileShare> azure_file_shares;
    std::vector<AzureBlobFileSystem> azure_blob_file_systems;
    std::vector<FileServerMount> file_servers;
    std::vector<UnmanagedFileSystem> unmanaged_file_systems;
    bool operator==(const MountVolumes&) const = default;
};

// The kinds of mount. Whatever is done for each of them goes through this table.
inline constexpr std::tuple mount_kinds{
    &MountVolumes::azure_file_shares, &MountVolumes::azure_blob_file_systems,
    &MountVolumes::file_servers, &MountVolumes::unmanaged_file_systems};
static_assert(sizeof(MountVolumes) ==
                  std::tuple_size_v<decltype(mount_kinds)> * sizeof(std::vector<FileServerMount>),
              "each list of MountVolumes needs its row");

// Calls use(volume, index) for each volume. The index is that among the volumes of its kind.
template <typename Volumes, typename Use>
void each_volume(Volumes& volumes, Use use) {
    const auto each_of = [&](auto& list) {
        for (std::size_t index = 0; index < list.size(); ++index)
            use(list[index], index);
    };
    std::apply([&](auto... kind) { (each_of(volumes.*kind), ...); }, mount_kinds);
}

// Returns the mount_error of the kind with this key.
[[nodiscard]] constexpr std::string_view mount_error(std::string_view key) {
    return []<typename... Volumes>(
               const std::tuple<std::vector<Volumes> MountVolumes::*...>& /*kinds*/,
               std::string_view wanted) {
        std::string_view code;
        ((code = Volumes::key == wanted ? Volumes::mount_error : code), ...);
        return code;
    }(mount_kinds, key);
}

struct RegistryCredentials {
    std::string username;
    std::optional<std::string> password;  // secret
    std::optional<KeyVaultSecretReference> password_secret_reference;
    std::optional<std::string> from_env;
    std::optional<std::string> from_file;
    bool operator==(const RegistryCredentials&) const = default;
};

// Combines the fields of imageSourceRegistry with shmSize.
struct ContainerSettings {
    std::string image;
    std::optional<std::string> server_url;  // absent: Docker Hub
    std::optional<RegistryCredentials> credentials;
    std::optional<std::string> shm_size;  // as written: "16gb"
    bool operator==(const ContainerSettings&) const = default;
};

struct InputDirectory {
    std::string id;  // AZ_BATCHAI_INPUT_<id>
    std::string path;
    bool operator==(const InputDirectory&) const = default;
};

// Only in the older schemas, and for information only.
enum class OutputType : std::uint8_t { model, logs, summary, custom };

struct OutputDirectory {
    std::string id;  // AZ_BATCHAI_OUTPUT_<id>
    std::string path_prefix;
    std::optional<std::string> path_suffix;
    OutputType type = OutputType::custom;
    bool create_new = true;  // if false (older schemas), path_prefix itself is used
    bool operator==(const OutputDirectory&) const = default;
};

struct EnvironmentVariable {
    std::string name;  // ^[A-Za-z_][A-Za-z0-9_]*$
    std::string value;
    bool operator==(const EnvironmentVariable&) const = default;
};

struct SecretVariable {
    std::string name;
    std::optional<std::string> value;  // secret
    std::optional<KeyVaultSecretReference> value_secret_reference;
    std::optional<std::string> from_env;
    std::optional<std::string> from_file;
    bool operator==(const SecretVariable&) const = default;
};

// Options of sbatch. Each member is named after the long option that it sets, and so is its key in
// the file. Batch AI's schema has none of them.
struct SlurmSettings {
    std::optional<std::string> account;
    std::optional<std::string> partition;
    std::optional<std::string> qos;
    std::optional<std::string> reservation;
    std::optional<std::string> constraint;
    std::optional<std::string> mem;  // per node
    std::optional<std::string> gres;
    std::optional<std::string> gpus_per_node;
    std::optional<bool> exclusive;  // false: also not if the site or the user's defaults say so
    std::optional<std::string> exclude;
    std::optional<std::string> nodelist;
    std::optional<std::string> dependency;
    std::optional<std::string> begin;
    std::optional<std::string> mail_type;
    std::optional<std::string> mail_user;
    std::optional<std::string> licenses;
    std::optional<std::string> comment;
    std::optional<std::string> array;
    bool operator==(const SlurmSettings&) const = default;
};

// When a job that has failed is run again. Batch AI's schema has no such object.
struct RetrySettings {
    std::vector<std::string> on;  // causes, and exit codes of the job
    int max = 3;
    bool exclude_failed_nodes = false;
    bool in_allocation = true;
    std::optional<std::string> progress_directory;  // stopWithoutProgress.directory
    int attempts_without_progress = 2;              // stopWithoutProgress.attempts
    bool operator==(const RetrySettings&) const = default;
};

// The signal by which the ranks learn that they will be ended. Batch AI's schema has no such
// object.
enum class CheckpointSignal : std::uint8_t { usr1, usr2, term };

struct CheckpointSettings {
    CheckpointSignal signal = CheckpointSignal::usr1;
    std::chrono::seconds before{0};
    bool operator==(const CheckpointSettings&) const = default;
};

// When a job stands still, and what is done then. Batch AI's schema has no such object.
enum class WatchAction : std::uint8_t { report, end };

inline constexpr std::chrono::seconds default_slow_over{300};

struct WatchSettings {
    std::optional<std::chrono::seconds> silence;
    std::optional<std::string> pattern;         // progress.pattern
    std::chrono::seconds within{0};             // progress.within
    std::optional<std::chrono::seconds> first;  // progress.first
    std::optional<std::chrono::seconds> idle_gpu;
    std::optional<int> slow_percent;                     // slowRank.percent
    std::chrono::seconds slow_over = default_slow_over;  // slowRank.over
    WatchAction action = WatchAction::report;
    bool operator==(const WatchSettings&) const = default;
};

// Software that the nodes have already, and that the job's processes are to find. Batch AI's schema
// has no such object, and none like the two that follow.
struct CondaSettings {
    std::optional<std::string> environment;  // a name
    std::optional<std::string> prefix;       // a directory
    bool operator==(const CondaSettings&) const = default;
};

struct UvSettings {
    std::string project;  // directory with pyproject.toml and uv.lock
    std::vector<std::string> extras;
    std::vector<std::string> groups;
    bool operator==(const UvSettings&) const = default;
};

struct SoftwareSettings {
    std::vector<std::string> modules;
    std::vector<std::string> module_paths;
    bool purge = false;
    std::optional<CondaSettings> conda;
    std::optional<std::string> venv;
    std::optional<UvSettings> uv;
    std::chrono::seconds time_limit = std::chrono::minutes(10);  // for each node
    bool operator==(const SoftwareSettings&) const = default;
};

// A copy of a directory that is made when the job is submitted.
struct SnapshotSettings {
    std::optional<std::string> directory;  // absent: that of the script, or of the job file
    std::vector<std::string> exclude;      // patterns
    std::string max_size = "100m";
    int max_files = 20'000;
    bool operator==(const SnapshotSettings&) const = default;
};

// Who is told of the job's end.
enum class WebhookFormat : std::uint8_t { json, text };

struct WebhookSettings {
    std::optional<std::string> url;  // secret
    std::optional<std::string> from_env;
    std::optional<std::string> from_file;
    WebhookFormat format = WebhookFormat::json;
    bool only_failures = false;
    bool operator==(const WebhookSettings&) const = default;
};

struct NotificationSettings {
    std::optional<WebhookSettings> webhook;
    bool operator==(const NotificationSettings&) const = default;
};

// How the points of a sweep follow from its parameters. Batch AI's schema has no sweeps.
enum class SweepMode : std::uint8_t {
    grid,    // each value of each parameter with each value of all others
    list,    // the first value of each parameter, then the second of each, …
    random,  // as many drawn points as "samples" says
};
constexpr auto json_words(SweepMode /*type*/) {
    return std::array{std::pair{std::string_view("grid"), SweepMode::grid},
                      std::pair{std::string_view("list"), SweepMode::list},
                      std::pair{std::string_view("random"), SweepMode::random}};
}

// A parameter, and where its values come from.
struct SweepParameter {
    enum class Source : std::uint8_t { values, uniform, log_uniform };
    std::string name;
    Source source = Source::values;
    std::vector<std::string> values;  // as texts
    double low = 0;                   // of the other two sources
    double high = 0;
    bool operator==(const SweepParameter&) const = default;
};

enum class MetricGoal : std::uint8_t { min, max };
constexpr auto json_words(MetricGoal /*type*/) {
    return std::array{std::pair{std::string_view("min"), MetricGoal::min},
                      std::pair{std::string_view("max"), MetricGoal::max}};
}
enum class MetricTake : std::uint8_t { last, best };
constexpr auto json_words(MetricTake /*type*/) {
    return std::array{std::pair{std::string_view("last"), MetricTake::last},
                      std::pair{std::string_view("best"), MetricTake::best}};
}
enum class MetricRanks : std::uint8_t { first, all };
constexpr auto json_words(MetricRanks /*type*/) {
    return std::array{std::pair{std::string_view("first"), MetricRanks::first},
                      std::pair{std::string_view("all"), MetricRanks::all}};
}

// The number by which the points of a sweep are compared.
struct SweepMetric {
    std::string pattern;
    MetricGoal goal = MetricGoal::min;
    MetricTake take = MetricTake::last;
    MetricRanks ranks = MetricRanks::first;
    bool operator==(const SweepMetric&) const = default;

    // In sweep.json, where the points of a sweep are kept.
    static constexpr auto fields(auto field) {
        return std::tuple{field("pattern", &SweepMetric::pattern),
                          field("goal", &SweepMetric::goal), field("take", &SweepMetric::take),
                          field("ranks", &SweepMetric::ranks)};
    }
};

struct SweepSettings {
    SweepMode mode = SweepMode::grid;
    std::vector<SweepParameter> parameters;
    base::Value parameters_as_given;  // for `job show`
    std::optional<int> samples;       // of mode random
    std::optional<std::int64_t> seed;
    std::optional<int> max_concurrent;
    std::optional<SweepMetric> metric;
    bool operator==(const SweepSettings&) const = default;
};

struct JobSpec {
    SchemaVersion schema = SchemaVersion::v2018_05_01;  // as "$schema" declares it
    SchedulingPriority scheduling_priority = SchedulingPriority::normal;
    std::optional<std::string> cluster_id;  // a name or an ARM id
    int node_count = 1;
    std::optional<int> spare_nodes;
    MountVolumes mount_volumes;
    std::optional<ContainerSettings> container_settings;
    Toolkit toolkit;
    std::optional<std::string> job_preparation;  // jobPreparation.commandLine
    std::string std_out_err_path_prefix;
    std::vector<InputDirectory> input_directories;
    std::vector<OutputDirectory> output_directories;
    std::vector<EnvironmentVariable> environment_variables;
    std::vector<SecretVariable> secrets;
    std::chrono::seconds max_wall_clock_time = std::chrono::days(7);
    std::optional<SlurmSettings> slurm;
    std::optional<RetrySettings> retry;
    std::optional<CheckpointSettings> checkpoint;
    std::optional<WatchSettings> watch;
    std::optional<SoftwareSettings> software;
    std::optional<SnapshotSettings> snapshot;
    std::optional<NotificationSettings> notification;
    std::optional<SweepSettings> sweep;

    // Older schemas only.
    // -1000..1000. Also sets scheduling_priority by its sign, unless the file gives that as well.
    std::optional<int> priority;
    std::optional<std::string> experiment_name;

    bool operator==(const JobSpec&) const = default;
};

}  // namespace batchai::job
