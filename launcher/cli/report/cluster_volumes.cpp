// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/cluster_volumes.hpp"

#include <utility>

#include <fmt/format.h>

#include "cli/output/query.hpp"
#include "cli/report/volume_flags.hpp"

namespace batchai::cli {
namespace {

tl::unexpected<base::Error> fault(std::string what, std::string hint = {}) {
    return base::fail(std::move(what), "nodeSetup.mountVolumes", std::move(hint),
                      base::ExitCode::bad_job_file);
}

// The volumes of a record or file; faults are at their place in it.
base::Result<job::Parsed> parsed_volumes(const Value& volumes) {
    auto parsed = parse_volumes(volumes);
    if (!parsed) return fault(parsed.error().what, parsed.error().hint);
    return parsed;
}

}  // namespace

base::Result<void> check_cluster_volumes(const Value& volumes) {
    const job::Parsed parsed = TRY(parsed_volumes(volumes));
    const auto has_key = [](const std::optional<job::StorageCredentials>& credentials) {
        return credentials && credentials->account_key &&
               *credentials->account_key != job::key_placeholder;
    };
    bool keys = false;
    for (const auto& share : parsed.spec->mount_volumes.azure_file_shares)
        keys = keys || has_key(share.credentials);
    for (const auto& blob : parsed.spec->mount_volumes.azure_blob_file_systems)
        keys = keys || has_key(blob.credentials);
    if (!keys) return {};
    return fault("an account's key is not kept with a cluster",
                 fmt::format("write {}: each job brings it (AZURE_BATCHAI_STORAGE_KEY), or the "
                             "site has it",
                             job::key_placeholder));
}

base::Result<job::MountVolumes> cluster_volumes(const store::Cluster& cluster,
                                                const std::optional<job::StorageAccount>& account) {
    const Value& volumes = cluster.properties["nodeSetup"]["mountVolumes"];
    if (volumes.is_null()) return job::MountVolumes{};
    job::Parsed parsed = TRY(parsed_volumes(volumes));
    for (const auto& diagnostic :
         job::apply_storage_account(*parsed.spec, account, parsed.positions))
        return base::fail(diagnostic.message, "cluster " + cluster.key.cluster, diagnostic.hint,
                          base::ExitCode::bad_job_file);
    return std::move(parsed.spec->mount_volumes);
}

}  // namespace batchai::cli
