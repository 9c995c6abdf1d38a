// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "site/table_reader.hpp"

namespace batchai::site {

class TableReader;

// A directory or file of the nodes that every container shows besides what it must have. "%u"
// stands for the user's name in both paths.
struct ContainerBind {
    std::string source;  // absolute
    std::string target;  // absolute, inside
    bool read_only = false;
    bool optional = false;  // passed over on a node that has no such source

    bool operator==(const ContainerBind&) const = default;
};

// "SOURCE[:TARGET][:ro][:optional]"; without a target it is shown where it is on the node.
[[nodiscard]] base::Result<ContainerBind> parse_container_bind(std::string_view text);

// The key container_binds: a list of such texts, no two of them with one target.
void read_container_binds(TableReader& table, std::vector<ContainerBind>& binds);

// Storage that rclone opens: one of its backends with options, as the admin wrote them. What Batch
// AI's own kinds of storage need beyond that (host, user, account) is added for each mount.
struct RemoteStorage {
    std::string backend;  // rclone's name of it: "smb", "azureblob", "webdav", "sftp", "s3", …
    // Where the share or container is in it; "%s" stands for its name.
    std::string path = "%s";
    // By name; "%s" stands for the share or container, "%u" for the name of the job's user.
    std::vector<std::pair<std::string, std::string>> options;
    // The option that takes the credential; empty: none is needed.
    std::string secret_option;

    bool operator==(const RemoteStorage&) const = default;
};

// Reads the table of strings at `key`: "type", "path" and "secret" are ours, all other entries are
// the backend's options. A secret among them is refused, since everybody can read site.lua.
void read_remote_storage(TableReader& table, std::string_view key,
                         std::optional<RemoteStorage>& storage);

// The option of a backend that takes the credential, unless the site says another; empty for
// backends that this program does not know.
[[nodiscard]] std::string_view usual_secret_option(std::string_view backend);

// What the admin says about this site, in site.lua. Everything has a default: without a file, any
// vmSize is accepted and means "the default partition", storage accounts are directories below
// $BATCHAI_HOME/storage.

// An option of sbatch, by its long name; the value may be empty.
struct ExtraOption {
    std::string name;
    std::string value;

    bool operator==(const ExtraOption&) const = default;
};

struct VmSize {
    std::string partition;
    std::string constraint;
    std::string gres;  // "gpu:1"
    int cpus = 0;      // per node; 0: not said
    int gpus = 0;      // per node
    std::vector<ExtraOption> extra_options;
};

// A storage account. Its file shares and its blob containers are directories that every node sees
// ("%s" in the path stands for the share or container), else what rclone opens.
struct StorageAccount {
    std::string file_share_directory;
    std::string blob_container_directory;
    bool read_only = false;
    std::optional<RemoteStorage> file_share_remote;
    std::optional<RemoteStorage> blob_container_remote;
    // For jobs that bring no key: a file that only the job's user can read ("%u" stands for the
    // user's name). Empty: such jobs are refused if a credential is needed.
    std::string credentials_file;
};

struct FileServer {
    std::string directory;
};

// A mount that the admin defined, which unmanagedFileSystems may name in mountCommand.
struct NamedMount {
    std::string directory;
    bool read_only = false;
};

struct Site {
    std::string source;  // path of the file read, empty for the built-in defaults
    std::string subscription = "00000000-0000-0000-0000-000000000000";
    std::string location = "local";
    std::string node_directory = "/tmp";  // node-local, for job temp and mount roots
    std::string python_interpreter = "python3";
    std::string default_partition;
    std::string account;
    std::string qos;
    bool exclusive = true;
    std::string mpi = "pmix";                             // srun --mpi=
    std::map<std::string, VmSize, std::less<>> vm_sizes;  // keys in upper case
    bool any_vm_size = true;  // unknown sizes map to the default partition, else they are refused
    std::map<std::string, StorageAccount, std::less<>> storage_accounts;
    // Accounts that are not named: directories of $BATCHAI_HOME, or what they are in Azure.
    bool other_accounts_in_azure = false;
    int mount_timeout = 20;   // seconds for all mounts of a step; less than the plugin's timeout
    int flush_timeout = 300;  // seconds, at the end of a step, for what remote storage lacks
    std::map<std::string, FileServer, std::less<>> file_servers;
    std::map<std::string, NamedMount, std::less<>> named_mounts;
    std::vector<std::pair<std::string, std::string>> environment;  // for every job

    // Imported images, seen by every node under the same path. "%u" stands for the user's name.
    // Empty: $BATCHAI_HOME/images.
    std::string image_directory;
    std::string shared_image_directory;  // looked at first; may be empty
    int shared_image_owner = 0;          // user id of who fills it, besides root
    int image_cache_limit = 50;          // GiB in image_directory; 0: no limit
    std::set<std::string, std::less<>> insecure_registries;  // "host:port", in lower case
    bool image_entrypoint = false;  // run each command through the image's entrypoint
    std::vector<ContainerBind> container_binds;
    bool inject_mpi_bridge = true;  // show containers the node's libmpi_bridge
};

// Evaluates site.lua (Lua 5.4; only string, table and math are there: no files, no processes, a
// bound on instructions and memory) and checks each key and type: an unknown key is an error with
// a did-you-mean, at file and key. The file returns one table.
[[nodiscard]] base::Result<Site> load(const std::filesystem::path& path);

// $BATCHAI_SITE if set (it must exist), else the system's site.lua if it exists, else defaults.
[[nodiscard]] base::Result<Site> load_default();

}  // namespace batchai::site
