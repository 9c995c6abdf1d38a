// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"
#include "site/storage_place.hpp"

namespace batchai::plan {

namespace {

// One of the two kinds of storage in a storage account, with everything in which they differ.
struct StorageKind {
    std::string_view key;        // in job.json
    std::string_view place_key;  // key of the setting that names the place
    site::StorageKind of_site;
    std::optional<site::RemoteStorage> site::StorageAccount::*remote;
    std::string_view azure_backend;  // rclone's backend for Azure itself
};

const StorageKind file_shares = {job::AzureFileShare::key, "azureFileUrl",
                                 site::StorageKind::file_shares,
                                 &site::StorageAccount::file_share_remote, "smb"};
const StorageKind containers = {job::AzureBlobFileSystem::key, "containerName",
                                site::StorageKind::containers,
                                &site::StorageAccount::blob_container_remote, "azureblob"};

// One volume of a storage account, as the job file describes it.
struct Wanted {
    const StorageKind& kind;
    std::size_t index;
    std::string account;
    std::string store;      // the share or container
    std::string directory;  // in the share or container; may be empty
    std::string host;       // host in the URL; empty for containers
    const std::optional<job::StorageCredentials>& credentials;
    int file_mode = 0777;
    int directory_mode = 0777;
};

bool has_placeholder(std::string_view text) {
    return text.find(job::account_placeholder) != std::string_view::npos;
}

std::string joined(const std::string& path, std::string_view below) {
    return below.empty() ? normalized(path) : normalized(fmt::format("{}/{}", path, below));
}

std::string host_of(std::string_view url) {
    const std::size_t begin = url.find("://");
    if (begin == std::string_view::npos) return {};
    url.remove_prefix(begin + 3);
    url = url.substr(0, url.find('/'));
    return std::string(url.substr(0, url.find(':')));
}

void use_default_storage(const VolumeList& list, const Wanted& wanted,
                         const site::StoragePlace& place, Mount& mount) {
    mount.source_root = normalized(place.directory(wanted.store));
    mount.source = joined(mount.source_root, wanted.directory);
    mount.create_source = true;
    if (list.planning.site.storage_accounts.empty()) return;
    list.notice(fmt::format("storage account {} is not in {}; using {} for {}", wanted.account,
                            list.planning.site.source, mount.source, mount.name));
}

void set_unless_given(std::vector<Variable>& options, std::string_view name, std::string value) {
    const bool given = std::any_of(options.begin(), options.end(),
                                   [&](const Variable& option) { return option.name == name; });
    if (!given) options.push_back({std::string(name), std::move(value)});
}

// Notes in `remote` where the credential is. Returns false, and reports a fault, if there is none.
bool find_credential(const VolumeList& list, const Wanted& wanted, const std::string& site_file,
                     RemoteVolume& remote) {
    if (remote.secret_option.empty()) return true;
    // Without a key, the submission is only checked: it has not been read from its source.
    const bool is_local =
        wanted.credentials && (wanted.credentials->account_key || wanted.credentials->from_env ||
                               wanted.credentials->from_file);
    if (is_local) {
        remote.secret_name =
            fmt::format("{}mountVolumes/{}/{}", list.scope == MountScope::job ? "" : "cluster/",
                        wanted.kind.key, wanted.index);
        list.planning.mount_secrets.push_back(
            {remote.secret_name, wanted.credentials->account_key.value_or(std::string())});
        return true;
    }
    if (wanted.credentials && wanted.credentials->account_key_secret_reference) {
        list.fault(Finding::secret_reference, wanted.kind.key, wanted.index,
                   "credentials/accountKeySecretReference",
                   fmt::format("the key of storage account {} is in a key vault, which this "
                               "program cannot open",
                               wanted.account),
                   std::string(instead_of_key_vault));
        return false;
    }
    if (!site_file.empty()) {
        remote.credentials_file =
            site::with_replaced(site_file, "%u", list.planning.inputs.user_name);
        return true;
    }
    list.fault(Finding::no_credentials, wanted.kind.key, wanted.index, "credentials",
               fmt::format("there is no key for storage account {}", wanted.account),
               "set AZURE_BATCHAI_STORAGE_ACCOUNT and AZURE_BATCHAI_STORAGE_KEY, or give "
               "credentials.accountKey; the admin can name a credentials_file in site.lua");
    return false;
}

// Adds the options that each of Batch AI's two kinds of storage needs, unless the admin set them.
void complete_options(const Wanted& wanted, RemoteVolume& remote) {
    if (remote.backend == "smb") {
        if (!wanted.host.empty()) set_unless_given(remote.options, "host", wanted.host);
        set_unless_given(remote.options, "user", wanted.account);
    }
    if (remote.backend == "azureblob") set_unless_given(remote.options, "account", wanted.account);
}

bool use_remote(const VolumeList& list, const Wanted& wanted, const site::RemoteStorage& storage,
                const std::string& site_file, Mount& mount) {
    const auto filled = [&](std::string text) {
        return site::with_replaced(site::with_replaced(std::move(text), "%s", wanted.store), "%u",
                                   list.planning.inputs.user_name);
    };
    RemoteVolume remote;
    remote.backend = storage.backend;
    remote.path = filled(storage.path);
    if (!wanted.directory.empty())
        remote.path += (remote.path.empty() ? "" : "/") + wanted.directory;
    for (const auto& [name, value] : storage.options)
        remote.options.push_back({name, filled(value)});
    remote.secret_option = storage.secret_option;
    remote.file_mode = wanted.file_mode;
    remote.directory_mode = wanted.directory_mode;
    complete_options(wanted, remote);
    if (!find_credential(list, wanted, site_file, remote)) return false;
    mount.remote = std::move(remote);
    return true;
}

site::RemoteStorage azure(const StorageKind& kind) {
    site::RemoteStorage storage;
    storage.backend = kind.azure_backend;
    storage.secret_option = site::usual_secret_option(kind.azure_backend);
    return storage;
}

void report_mode(const VolumeList& list, const Wanted& wanted, std::string_view key) {
    list.fault(
        Finding::no_effect, wanted.kind.key, wanted.index, key,
        fmt::format("\"{}\" has no effect: {} is a directory of this site, which has its own "
                    "modes",
                    key, wanted.store),
        "remove it");
}

// Fills in the storage of the volume. Returns false, and reports a fault, if there is none.
bool find_storage(const VolumeList& list, const Wanted& wanted, Mount& mount) {
    using Where = site::StoragePlace::Where;
    const site::Site& site = list.planning.site;
    const auto place = site::storage_place(site, list.planning.inputs.storage_root, wanted.account,
                                           wanted.kind.of_site);
    mount.read_only = mount.read_only || place.read_only;
    switch (place.where) {
        case Where::launcher:
            use_default_storage(list, wanted, place, mount);
            return true;
        case Where::site:
            mount.source_root = normalized(place.directory(wanted.store));
            mount.source = joined(mount.source_root, wanted.directory);
            return true;
        case Where::azure:
            return use_remote(list, wanted, azure(wanted.kind), {}, mount);
        case Where::remote: {
            const auto& account = site.storage_accounts.find(wanted.account)->second;
            return use_remote(list, wanted, *(account.*wanted.kind.remote),
                              account.credentials_file, mount);
        }
        case Where::nowhere:
            break;
    }
    list.fault(Finding::no_storage_directory, wanted.kind.key, wanted.index, wanted.kind.place_key,
               fmt::format("storage account {} has no {} in {}", wanted.account,
                           site::directory_key(wanted.kind.of_site), site.source),
               "ask the admin to add it, or use another account");
    return false;
}

void add(const VolumeList& list, const Wanted& wanted, Mount mount) {
    if (!is_component(wanted.account) || !is_component(wanted.store) ||
        !stays_below(wanted.directory)) {
        list.fault(Finding::bad_storage_name, wanted.kind.key, wanted.index, wanted.kind.place_key,
                   fmt::format("\"{}\" does not name a place in a storage account", mount.name),
                   "names are letters, digits and \"-\"");
        return;
    }
    if (!find_storage(list, wanted, mount)) return;
    if (!mount.remote) {
        if (wanted.file_mode != 0777) report_mode(list, wanted, "fileMode");
        if (wanted.directory_mode != 0777) report_mode(list, wanted, "directoryMode");
    }
    list.planning.plan.mounts.push_back(std::move(mount));
}

Mount empty_mount(const VolumeList& list, std::string_view kind, std::string name,
                  std::string target) {
    Mount mount;
    mount.kind = kind;
    mount.name = std::move(name);
    mount.target = std::move(target);
    mount.scope = list.scope;
    mount.mount_seconds = list.planning.site.mount_timeout;
    mount.flush_seconds = list.planning.site.flush_timeout;
    return mount;
}

// The parser has checked that it is an octal number.
int mode_of(const std::string& text) {
    return static_cast<int>(std::strtol(text.c_str(), nullptr, 8));
}

}  // namespace

void plan_volume(const VolumeList& list, const job::AzureFileShare& share, std::size_t index) {
    if (has_placeholder(share.azure_file_url + share.account_name.value_or(""))) return;
    const auto location = job::azure_file_location(share.azure_file_url);
    if (!location) {
        list.fault(Finding::bad_storage_name, file_shares.key, index, file_shares.place_key,
                   fmt::format("Ill-formed Azure File URL \"{}\"", share.azure_file_url),
                   "write https://<account>.file.core.windows.net/<share>");
        return;
    }
    add(list,
        {.kind = file_shares,
         .index = index,
         .account = share.account_name.value_or(location->account),
         .store = location->share,
         .directory = location->directory,
         .host = host_of(share.azure_file_url),
         .credentials = share.credentials,
         .file_mode = mode_of(share.file_mode),
         .directory_mode = mode_of(share.directory_mode)},
        empty_mount(list, file_shares.key, share.azure_file_url, share.relative_mount_path));
}

void plan_volume(const VolumeList& list, const job::AzureBlobFileSystem& blob, std::size_t index) {
    if (has_placeholder(blob.account_name)) return;
    Mount mount = empty_mount(list, containers.key,
                              fmt::format("{}/{}", blob.account_name, blob.container_name),
                              blob.relative_mount_path);
    if (!apply_mount_options(list, index, blob.mount_options, mount)) return;
    add(list,
        {.kind = containers,
         .index = index,
         .account = blob.account_name,
         .store = blob.container_name,
         .credentials = blob.credentials},
        std::move(mount));
}

}  // namespace batchai::plan
