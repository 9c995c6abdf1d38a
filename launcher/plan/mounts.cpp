// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.hpp"
#include "job/model.hpp"
#include "job/schema/storage_account.hpp"
#include "plan/paths.hpp"
#include "plan/planning.hpp"

namespace batchai::plan {

// The mountVolumes to plan: the job's own, or those of its cluster.
struct VolumeList {
    Planning& planning;
    const job::MountVolumes& volumes;
    MountScope scope = MountScope::job;

    // Reports a fault at `key` of a volume. A volume of the cluster has no place in the job file,
    // so the message names the cluster instead.
    void fault(Finding finding, std::string_view kind, std::size_t index, std::string_view key,
               const std::string& message, std::string hint = {}) const;
    void notice(const std::string& text) const { planning.plan.notices.push_back(text); }
};

// Applies the mountOptions to the mount. Returns false, and reports a fault, if they are refused.
[[nodiscard]] bool apply_mount_options(const VolumeList& list, std::size_t index,
                                       const std::optional<std::string>& options, Mount& mount);

// Plans azureFileShares and azureBlobFileSystems. Each becomes a directory of the site, or else
// remote storage, or else a directory in the launcher's default storage.
void plan_storage_mounts(const VolumeList& list);

namespace {

// One of the two kinds of storage in a storage account, with everything in which they differ.
struct StorageKind {
    std::string_view key;        // in job.json
    std::string_view place_key;  // key of the setting that names the place
    std::string_view directory;  // below the account, in the default storage
    std::string_view site_key;   // in site.lua
    std::string site::StorageAccount::*pattern;
    std::optional<site::RemoteStorage> site::StorageAccount::*remote;
    std::string_view azure_backend;  // rclone's backend for Azure itself
};

const StorageKind file_shares = {"azureFileShares",
                                 "azureFileUrl",
                                 "file-shares",
                                 "file_share_directory",
                                 &site::StorageAccount::file_share_directory,
                                 &site::StorageAccount::file_share_remote,
                                 "smb"};
const StorageKind containers = {"azureBlobFileSystems",
                                "containerName",
                                "containers",
                                "blob_container_directory",
                                &site::StorageAccount::blob_container_directory,
                                &site::StorageAccount::blob_container_remote,
                                "azureblob"};

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

// Whether every component of the relative path is a name, so that the path cannot lead out of the
// directory that it is appended to.
bool stays_below(std::string_view directory) {
    if (directory.empty()) return true;
    const auto components = base::split(directory, '/');
    return std::all_of(components.begin(), components.end(), is_component);
}

std::string joined(const std::string& path, std::string_view below) {
    return below.empty() ? normalized(path) : normalized(fmt::format("{}/{}", path, below));
}

std::string replaced(std::string text, std::string_view pattern, std::string_view by) {
    for (std::size_t at = text.find(pattern); at != std::string::npos;
         at = text.find(pattern, at + by.size()))
        text.replace(at, pattern.size(), by);
    return text;
}

std::string host_of(std::string_view url) {
    const std::size_t begin = url.find("://");
    if (begin == std::string_view::npos) return {};
    url.remove_prefix(begin + 3);
    url = url.substr(0, url.find('/'));
    return std::string(url.substr(0, url.find(':')));
}

void use_default_storage(const VolumeList& list, const Wanted& wanted, Mount& mount) {
    mount.source_root =
        normalized(fmt::format("{}/{}/{}/{}", list.planning.submission.storage_root, wanted.account,
                               wanted.kind.directory, wanted.store));
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
    if (wanted.credentials && wanted.credentials->account_key) {
        remote.secret_name =
            fmt::format("{}mountVolumes/{}/{}", list.scope == MountScope::job ? "" : "cluster/",
                        wanted.kind.key, wanted.index);
        list.planning.mount_secrets.push_back(
            {remote.secret_name, *wanted.credentials->account_key});
        return true;
    }
    if (wanted.credentials && wanted.credentials->account_key_secret_reference) {
        list.fault(Finding::secret_reference, wanted.kind.key, wanted.index,
                   "credentials/accountKeySecretReference",
                   fmt::format("the key of storage account {} is in a key vault, which is not "
                               "supported yet",
                               wanted.account),
                   "give \"accountKey\"");
        return false;
    }
    if (!site_file.empty()) {
        remote.credentials_file = replaced(site_file, "%u", list.planning.submission.user_name);
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
        return replaced(replaced(std::move(text), "%s", wanted.store), "%u",
                        list.planning.submission.user_name);
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

// Fills in the storage of the volume. Returns false, and reports a fault, if there is none.
bool find_storage(const VolumeList& list, const Wanted& wanted, Mount& mount) {
    const site::Site& site = list.planning.site;
    const auto found = site.storage_accounts.find(wanted.account);
    if (found == site.storage_accounts.end()) {
        if (site.other_accounts_in_azure)
            return use_remote(list, wanted, azure(wanted.kind), {}, mount);
        use_default_storage(list, wanted, mount);
        return true;
    }
    const site::StorageAccount& account = found->second;
    mount.read_only = mount.read_only || account.read_only;
    if (std::string pattern = account.*wanted.kind.pattern; !pattern.empty()) {
        mount.source_root = normalized(replaced(std::move(pattern), "%s", wanted.store));
        mount.source = joined(mount.source_root, wanted.directory);
        return true;
    }
    if (const auto& remote = account.*wanted.kind.remote)
        return use_remote(list, wanted, *remote, account.credentials_file, mount);
    list.fault(Finding::no_storage_directory, wanted.kind.key, wanted.index, wanted.kind.place_key,
               fmt::format("storage account {} has no {} in {}", wanted.account,
                           wanted.kind.site_key, site.source),
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
    const bool modes_given = wanted.file_mode != 0777 || wanted.directory_mode != 0777;
    if (modes_given && !mount.remote)
        list.notice(
            fmt::format("fileMode and directoryMode of {} have no effect: it is a directory "
                        "of this site, which has its own modes",
                        mount.name));
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

void add_file_share(const VolumeList& list, const job::AzureFileShare& share, std::size_t index) {
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

void add_container(const VolumeList& list, const job::AzureBlobFileSystem& blob,
                   std::size_t index) {
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

}  // namespace

void plan_storage_mounts(const VolumeList& list) {
    for (std::size_t i = 0; i < list.volumes.azure_file_shares.size(); ++i)
        add_file_share(list, list.volumes.azure_file_shares[i], i);
    for (std::size_t i = 0; i < list.volumes.azure_blob_file_systems.size(); ++i)
        add_container(list, list.volumes.azure_blob_file_systems[i], i);
}

namespace {

constexpr std::string_view file_servers = "fileServers";
constexpr std::string_view unmanaged = "unmanagedFileSystems";

// The meaning of a job file's mountOptions here. They are written for mount(8) or blobfuse: "rw",
// "-o vers=4,hard", "--use-https=true -o attr_timeout=240 -o allow_other".
struct MountOptions {
    bool read_only = false;
    bool no_execute = false;
    // Known options that have no effect here, because the site mounts the file server, and what a
    // job sees belongs to its user.
    std::vector<std::string> ignored;
    std::vector<std::string> unknown;
};

// The hint for mountOptions that are refused.
constexpr std::string_view mount_options_help =
    "ro, rw and noexec have an effect; options of mount(8), nfs(5) and blobfuse that only tune the "
    "mount are ignored";

// Options of mount(8), nfs(5) and blobfuse. Each name has a blank before and after it.
constexpr std::string_view without_effect =
    " _netdev ac acdirmax acdirmin acl acregmax acregmin actimeo allow_other async atime"
    " attr_timeout auto auto_cache bg big_writes cache-size-mb cto default_permissions"
    " defaults dir_mode diratime entry_timeout exec fg file-cache-timeout-in-seconds"
    " file_mode fsc fsname gid hard intr kernel_cache lazytime local_lock lock log-level"
    " lookupcache max_read max_write minorversion mountport mountproto nconnect"
    " negative_timeout nfsvers noac noacl noatime noauto nocto nodev nodiratime nofail nofsc"
    " nointr nolock nordirplus norelatime noresvport nosharecache nosuid nouser port proto"
    " rdirplus rdma relatime resvport retrans retry rsize sec sharecache soft softerr"
    " strictatime sync tcp timeo tmp-path udp uid umask use-https user users vers wsize ";

bool has_no_effect(const std::string& name) {
    return without_effect.find(" " + name + " ") != std::string_view::npos;
}

// Removes the "-o" of "-oro" and the "--" of "--use-https=true".
std::string_view bare(std::string_view word) {
    if (word.starts_with("--")) return word.substr(2);
    if (word.starts_with("-o")) return word.substr(2);
    return word;
}

void read_word(std::string_view word, MountOptions& options) {
    const std::string name(word.substr(0, word.find('=')));
    if (word == "ro") {
        options.read_only = true;
    } else if (word == "rw") {
        options.read_only = false;
    } else if (word == "noexec") {
        options.no_execute = true;
    } else if (has_no_effect(name)) {
        options.ignored.push_back(name);
    } else {
        // The value is left out, because it may be a password.
        options.unknown.push_back(name);
    }
}

MountOptions read_mount_options(const std::optional<std::string>& text) {
    MountOptions options;
    if (!text) return options;
    std::string words = *text;
    std::replace_if(
        words.begin(), words.end(), [](char c) { return c == '\t' || c == '\n' || c == ','; }, ' ');
    for (const std::string_view word : base::split(words, ' ')) {
        if (const std::string_view option = bare(word); !option.empty()) read_word(option, options);
    }
    return options;
}

// Placeholders are replaced before planning. One that is left is reported with the same diagnostic
// as there, so that a caller that collects the diagnostics of both gets equal ones.
void report_placeholders(Planning& planning) {
    job::JobSpec spec = planning.spec;
    for (job::Diagnostic& fault :
         job::apply_storage_account(spec, std::nullopt, planning.positions))
        planning.findings.add(std::move(fault));
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

void add_file_server(const VolumeList& list, const job::FileServerMount& wanted,
                     std::size_t index) {
    const auto& servers = list.planning.site.file_servers;
    const auto components = base::split(wanted.file_server_id, '/');
    const std::string name(components.back());
    const auto server = servers.find(name);
    if (server == servers.end()) {
        list.fault(Finding::unknown_file_server, file_servers, index, "fileServer/id",
                   fmt::format("this site has no file server \"{}\"", name),
                   known_names(servers, "file servers", "file_servers"));
        return;
    }
    std::string directory = normalized(wanted.source_directory.value_or(""));
    if (directory.starts_with('/')) directory.erase(0, 1);
    if (!stays_below(directory)) {
        list.fault(
            Finding::bad_path, file_servers, index, "sourceDirectory",
            fmt::format("\"sourceDirectory\" must not have \"..\" components: \"{}\"", directory),
            "write the directory below the file server's own");
        return;
    }
    Mount mount;
    mount.kind = file_servers;
    mount.name = name;
    mount.source_root = normalized(server->second.directory);
    mount.source = normalized(fmt::format("{}/{}", mount.source_root, directory));
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.mount_seconds = list.planning.site.mount_timeout;
    if (apply_mount_options(list, index, wanted.mount_options, mount))
        list.planning.plan.mounts.push_back(std::move(mount));
}

void add_unmanaged(const VolumeList& list, const job::UnmanagedFileSystem& wanted,
                   std::size_t index) {
    const auto& mounts = list.planning.site.named_mounts;
    const auto named = mounts.find(base::trim(wanted.mount_command));
    if (named == mounts.end()) {
        // The message does not quote the command, because people write passwords into it.
        list.fault(Finding::unknown_mount, unmanaged, index, "mountCommand",
                   "\"mountCommand\" does not name a mount of this site; a command of a job file "
                   "is never run as root",
                   known_names(mounts, "mounts", "named_mounts") +
                       "; a name in named_mounts may be a whole command, which is only compared "
                       "and never run");
        return;
    }
    Mount mount;
    mount.kind = unmanaged;
    mount.name = named->first;
    mount.source = normalized(named->second.directory);
    mount.target = wanted.relative_mount_path;
    mount.scope = list.scope;
    mount.read_only = named->second.read_only;
    mount.mount_seconds = list.planning.site.mount_timeout;
    list.planning.plan.mounts.push_back(std::move(mount));
}

void plan_list(const VolumeList& list) {
    plan_storage_mounts(list);
    for (std::size_t i = 0; i < list.volumes.file_servers.size(); ++i)
        add_file_server(list, list.volumes.file_servers[i], i);
    for (std::size_t i = 0; i < list.volumes.unmanaged_file_systems.size(); ++i)
        add_unmanaged(list, list.volumes.unmanaged_file_systems[i], i);
}

}  // namespace

void VolumeList::fault(Finding finding, std::string_view kind, std::size_t index,
                       std::string_view key, const std::string& message, std::string hint) const {
    if (scope == MountScope::job) {
        planning.findings.add(finding,
                              fmt::format("/properties/mountVolumes/{}/{}/{}", kind, index, key),
                              message, std::move(hint));
        return;
    }
    planning.findings.add(finding, {},
                          fmt::format("cluster \"{}\": {} {}: {}",
                                      planning.submission.cluster->name, kind, index + 1, message),
                          std::move(hint));
}

bool apply_mount_options(const VolumeList& list, std::size_t index,
                         const std::optional<std::string>& options, Mount& mount) {
    const MountOptions read = read_mount_options(options);
    if (!read.unknown.empty()) {
        list.fault(
            Finding::bad_mount_option, mount.kind, index, "mountOptions",
            fmt::format("\"mountOptions\" has unknown options: {}", fmt::join(read.unknown, ", ")),
            std::string(mount_options_help));
        return false;
    }
    mount.read_only = mount.read_only || read.read_only;
    mount.no_execute = mount.no_execute || read.no_execute;
    if (!read.ignored.empty())
        list.notice(fmt::format(
            "these mountOptions of {} have no effect, because the site decides how it is "
            "mounted: {}",
            mount.name, fmt::join(read.ignored, ", ")));
    return true;
}

void plan_mounts(Planning& planning) {
    report_placeholders(planning);
    if (planning.submission.cluster)
        plan_list({planning, planning.submission.cluster->mount_volumes, MountScope::cluster});
    plan_list({planning, planning.spec.mount_volumes, MountScope::job});
}

}  // namespace batchai::plan
