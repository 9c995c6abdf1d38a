// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.hpp"
#include "job/storage_account.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

namespace {

// The two things that a storage account holds, and what differs between them.
struct StorageKind {
    std::string_view key;        // in job.json
    std::string_view directory;  // below the account, in the default storage
    std::string_view site_key;   // in site.lua
    std::string site::StorageAccount::*pattern;
};

const StorageKind file_shares = {"azureFileShares", "file-shares", "file_share_directory",
                                 &site::StorageAccount::file_share_directory};
const StorageKind containers = {"azureBlobFileSystems", "containers", "blob_container_directory",
                                &site::StorageAccount::blob_container_directory};

struct StoragePlace {
    std::string account;
    std::string store;      // the share or container
    std::string directory;  // below it; may be empty
};

std::string pointer_of(std::string_view kind, std::size_t index, std::string_view key) {
    return fmt::format("/properties/mountVolumes/{}/{}/{}", kind, index, key);
}

bool has_placeholder(std::string_view text) {
    return text.find(job::account_placeholder) != std::string_view::npos;
}

// Placeholders are replaced before planning; one that is left is the same fault as there, so that
// a caller who collects both sees equal diagnostics.
void report_placeholders(Planning& planning) {
    job::JobSpec spec = planning.spec;
    for (job::Diagnostic& fault :
         job::apply_storage_account(spec, std::nullopt, planning.positions))
        planning.findings.add(std::move(fault));
}

// Whether each of the directory's components names something below it.
bool stays_below(std::string_view directory) {
    if (directory.empty()) return true;
    const auto components = base::split(directory, '/');
    return std::all_of(components.begin(), components.end(), is_component);
}

std::string joined(std::string path, std::string_view below) {
    return below.empty() ? normalized(path) : normalized(fmt::format("{}/{}", path, below));
}

// "ro" as one of the comma-separated options of mount(8), with or without "-o".
bool asks_read_only(const std::optional<std::string>& options) {
    if (!options) return false;
    std::string text = *options;
    std::replace(text.begin(), text.end(), ' ', ',');
    const auto words = base::split(text, ',');
    return std::find(words.begin(), words.end(), "ro") != words.end();
}

void use_default_storage(Planning& planning, const StorageKind& kind, const StoragePlace& place,
                         Mount& mount) {
    mount.source = joined(fmt::format("{}/{}/{}/{}", planning.submission.storage_root,
                                      place.account, kind.directory, place.store),
                          place.directory);
    mount.create_source = true;
    if (planning.site.storage_accounts.empty()) return;
    planning.plan.notices.push_back(
        fmt::format("storage account {} is not in {}: {} is used for {}", place.account,
                    planning.site.source, mount.source, mount.name));
}

void add_storage(Planning& planning, const StorageKind& kind, const StoragePlace& place,
                 std::string_view pointer, Mount mount) {
    if (!is_component(place.account) || !is_component(place.store) ||
        !stays_below(place.directory)) {
        planning.findings.add(
            Finding::bad_storage_name, pointer,
            fmt::format("\"{}\" does not name a place in a storage account", mount.name),
            "names are letters, digits and \"-\"");
        return;
    }
    const auto account = planning.site.storage_accounts.find(place.account);
    if (account == planning.site.storage_accounts.end()) {
        use_default_storage(planning, kind, place, mount);
    } else {
        std::string source = account->second.*kind.pattern;
        if (source.empty()) {
            planning.findings.add(Finding::no_storage_directory, pointer,
                                  fmt::format("storage account {} has no {} in {}", place.account,
                                              kind.site_key, planning.site.source),
                                  "ask the admin to add it, or use another account");
            return;
        }
        if (const auto at = source.find("%s"); at != std::string::npos)
            source.replace(at, 2, place.store);
        mount.source = joined(std::move(source), place.directory);
        mount.read_only = mount.read_only || account->second.read_only;
    }
    planning.plan.mounts.push_back(std::move(mount));
}

void add_file_share(Planning& planning, const job::AzureFileShare& share, std::size_t index) {
    const std::string pointer = pointer_of(file_shares.key, index, "azureFileUrl");
    if (has_placeholder(share.azure_file_url + share.account_name.value_or(""))) return;
    const auto location = job::azure_file_location(share.azure_file_url);
    if (!location) {
        planning.findings.add(Finding::bad_storage_name, pointer,
                              fmt::format("Ill-formed Azure File URL \"{}\"", share.azure_file_url),
                              "write https://<account>.file.core.windows.net/<share>");
        return;
    }
    const StoragePlace place{share.account_name.value_or(location->account), location->share,
                             location->directory};
    add_storage(planning, file_shares, place, pointer,
                {std::string(file_shares.key),
                 share.azure_file_url,
                 {},
                 share.relative_mount_path,
                 MountScope::job,
                 false,
                 false});
}

void add_container(Planning& planning, const job::AzureBlobFileSystem& blob, std::size_t index) {
    if (has_placeholder(blob.account_name)) return;
    const StoragePlace place{blob.account_name, blob.container_name, {}};
    add_storage(planning, containers, place, pointer_of(containers.key, index, "containerName"),
                {std::string(containers.key),
                 fmt::format("{}/{}", blob.account_name, blob.container_name),
                 {},
                 blob.relative_mount_path,
                 MountScope::job,
                 asks_read_only(blob.mount_options),
                 false});
}

template <typename Map>
std::string known_names(const Map& map, std::string_view what, std::string_view site_key) {
    std::vector<std::string_view> names;
    names.reserve(map.size());
    for (const auto& [name, value] : map)
        names.emplace_back(name);
    if (names.empty())
        return fmt::format("this site has no {}; the admin adds them to {} in site.lua", what,
                           site_key);
    return fmt::format("this site has the {} {}", what, fmt::join(names, ", "));
}

void add_file_server(Planning& planning, const job::FileServerMount& wanted, std::size_t index) {
    const auto components = base::split(wanted.file_server_id, '/');
    const std::string name(components.back());
    const auto server = planning.site.file_servers.find(name);
    if (server == planning.site.file_servers.end()) {
        planning.findings.add(
            Finding::unknown_file_server, pointer_of("fileServers", index, "fileServer/id"),
            fmt::format("this site has no file server \"{}\"", name),
            known_names(planning.site.file_servers, "file servers", "file_servers"));
        return;
    }
    std::string directory = normalized(wanted.source_directory.value_or(""));
    if (directory.starts_with('/')) directory.erase(0, 1);
    if (!stays_below(directory)) {
        planning.findings.add(
            Finding::bad_path, pointer_of("fileServers", index, "sourceDirectory"),
            fmt::format("\"sourceDirectory\" must not have \"..\" components: \"{}\"", directory),
            "write the directory below the file server's own");
        return;
    }
    planning.plan.mounts.push_back(
        {"fileServers", name, joined(server->second.directory, directory),
         wanted.relative_mount_path, MountScope::job, asks_read_only(wanted.mount_options), false});
}

void add_unmanaged(Planning& planning, const job::UnmanagedFileSystem& wanted, std::size_t index) {
    const std::string name(base::trim(wanted.mount_command));
    const auto mount = planning.site.named_mounts.find(name);
    if (mount == planning.site.named_mounts.end()) {
        // The command is not quoted: people write passwords into it.
        planning.findings.add(
            Finding::unknown_mount, pointer_of("unmanagedFileSystems", index, "mountCommand"),
            "\"mountCommand\" does not name a mount of this site; a command of a job file is never "
            "run as root",
            known_names(planning.site.named_mounts, "mounts", "mounts") +
                "; a name there may also be a whole command, which is then found but not run");
        return;
    }
    planning.plan.mounts.push_back({"unmanagedFileSystems", name, mount->second.directory,
                                    wanted.relative_mount_path, MountScope::job,
                                    mount->second.read_only, false});
}

}  // namespace

void plan_mounts(Planning& planning) {
    const job::MountVolumes& volumes = planning.spec.mount_volumes;
    report_placeholders(planning);
    for (std::size_t i = 0; i < volumes.azure_file_shares.size(); ++i)
        add_file_share(planning, volumes.azure_file_shares[i], i);
    for (std::size_t i = 0; i < volumes.azure_blob_file_systems.size(); ++i)
        add_container(planning, volumes.azure_blob_file_systems[i], i);
    for (std::size_t i = 0; i < volumes.file_servers.size(); ++i)
        add_file_server(planning, volumes.file_servers[i], i);
    for (std::size_t i = 0; i < volumes.unmanaged_file_systems.size(); ++i)
        add_unmanaged(planning, volumes.unmanaged_file_systems[i], i);
}

}  // namespace batchai::plan
