// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/resource/cluster_volumes.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/output/json.hpp"
#include "cli/output/query.hpp"
#include "job/parse.hpp"

namespace batchai::cli {
namespace {

tl::unexpected<base::Error> fault(std::string what, std::string hint = {}) {
    return base::fail(std::move(what), "nodeSetup.mountVolumes", std::move(hint),
                      base::ExitCode::bad_job_file);
}

void append(Value& volumes, std::string_view kind, Value volume) {
    Value list = volumes[kind];
    if (!list.is_array()) list = Value::Array{};
    list.array()->push_back(std::move(volume));
    volumes.set(kind, std::move(list));
}

// The smallest job that has the volumes: what reads a job's reads a cluster's.
base::Result<job::Parsed> parse_volumes(const Value& volumes) {
    const Value properties =
        Value::Object{{"nodeCount", 1},
                      {"stdOutErrPathPrefix", "/logs"},
                      {"customToolkitSettings", Value::Object{{"commandLine", "true"}}},
                      {"mountVolumes", volumes}};
    auto parsed = job::parse(format_json(Value::Object{{"properties", properties}}));
    for (const auto& diagnostic : parsed.diagnostics) {
        if (diagnostic.severity == job::Severity::error)
            return fault(diagnostic.message, diagnostic.hint);
    }
    if (!parsed.spec) return fault("cannot be read");
    return parsed;
}

}  // namespace

base::Result<Value> with_flags(Value volumes, const VolumeFlags& flags) {
    const std::string account =
        flags.storage_account.value_or(std::string(job::account_placeholder));
    if (flags.file_share)
        append(volumes, "azureFileShares",
               Value::Object{{"azureFileUrl", fmt::format("https://{}.file.core.windows.net/{}",
                                                          account, *flags.file_share)},
                             {"relativeMountPath", flags.file_share_path}});
    if (flags.container)
        append(volumes, "azureBlobFileSystems",
               Value::Object{{"accountName", account},
                             {"containerName", *flags.container},
                             {"relativeMountPath", flags.container_path}});
    if (flags.file_server)
        append(volumes, "fileServers",
               Value::Object{{"fileServer", Value::Object{{"id", *flags.file_server}}},
                             {"relativeMountPath", flags.file_server_path},
                             {"mountOptions", "rw"}});
    if (!volumes.is_null()) {
        const auto checked = check_cluster_volumes(volumes);
        if (!checked) return tl::unexpected(checked.error());
    }
    return volumes;
}

base::Result<void> check_cluster_volumes(const Value& volumes) {
    const auto parsed = parse_volumes(volumes);
    if (!parsed) return tl::unexpected(parsed.error());
    const auto has_key = [](const std::optional<job::StorageCredentials>& credentials) {
        return credentials && credentials->account_key &&
               *credentials->account_key != job::key_placeholder;
    };
    bool keys = false;
    for (const auto& share : parsed->spec->mount_volumes.azure_file_shares)
        keys = keys || has_key(share.credentials);
    for (const auto& blob : parsed->spec->mount_volumes.azure_blob_file_systems)
        keys = keys || has_key(blob.credentials);
    if (!keys) return {};
    return fault("an account's key is not kept with a cluster",
                 fmt::format("write {}: each job brings it (AZURE_BATCHAI_STORAGE_KEY), or the "
                             "site has it",
                             job::key_placeholder));
}

base::Result<Value> node_setup(const store::Cluster& cluster) {
    if (cluster.properties_json.empty()) return Value();
    auto properties =
        parse_json(cluster.properties_json, "record of cluster " + cluster.key.cluster);
    if (!properties) return tl::unexpected(properties.error());
    return (*properties)["nodeSetup"];
}

base::Result<job::MountVolumes> cluster_volumes(const store::Cluster& cluster,
                                                const std::optional<job::StorageAccount>& account) {
    const auto setup = node_setup(cluster);
    if (!setup) return tl::unexpected(setup.error());
    const Value& volumes = (*setup)["mountVolumes"];
    if (volumes.is_null()) return job::MountVolumes{};
    auto parsed = parse_volumes(volumes);
    if (!parsed) return tl::unexpected(parsed.error());
    for (const auto& diagnostic :
         job::apply_storage_account(*parsed->spec, account, parsed->positions))
        return base::fail(diagnostic.message, "cluster " + cluster.key.cluster, diagnostic.hint,
                          base::ExitCode::bad_job_file);
    return std::move(parsed->spec->mount_volumes);
}

}  // namespace batchai::cli
