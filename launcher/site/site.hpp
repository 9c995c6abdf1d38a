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
#include "site/policy.hpp"
#include "site/table_reader.hpp"

// The admin's description of the site, site.lua. site.cpp reads most of its keys; the other parts
// are:
//
//   table_reader.hpp   runs the file, and reads its table key by key
//   Sandbox.cmake      what the file may use, and how much; sandbox.hpp.in has that for C++
//   sandbox.lua        bounds the library functions that could take long
//   policy.hpp         the rules of the site for jobs
//   storage_place.hpp  where the shares and containers of a storage account are
namespace batchai::site {

class TableReader;

// A directory or file of the node that every container shows, in addition to what all containers
// need. "%u" stands for the user's name in both paths.
struct ContainerBind {
    std::string source;  // absolute
    std::string target;  // absolute, inside the container
    bool read_only = false;
    bool optional = false;  // ignored on a node that does not have the source

    bool operator==(const ContainerBind&) const = default;
};

// Parses "SOURCE[:TARGET][:ro][:optional]". Without a target, the path inside the container is that
// on the node.
[[nodiscard]] base::Result<ContainerBind> parse_container_bind(std::string_view text);

// Reads the key container_binds: a list of such strings, no two of which have the same target.
void read_container_binds(TableReader& table, std::vector<ContainerBind>& binds);

// Storage that rclone opens: one of its backends, with options as the admin wrote them. The further
// options that Batch AI's own kinds of storage need (host, user, account) are added for each mount.
struct RemoteStorage {
    std::string backend;  // rclone's name for it: "smb", "azureblob", "webdav", "sftp", "s3", …
    // The path of the share or container in the backend; "%s" stands for its name.
    std::string path = "%s";
    // Names and values; "%s" stands for the share or container, "%u" for the name of the job's
    // user.
    std::vector<std::pair<std::string, std::string>> options;
    // The option that takes the credential; empty if none is needed.
    std::string secret_option;

    bool operator==(const RemoteStorage&) const = default;
};

// Reads the table of strings at `key`. "type", "path" and "secret" are keys of this program; all
// other entries are the backend's options. A secret among them is refused, because everybody can
// read site.lua.
void read_remote_storage(TableReader& table, std::string_view key,
                         std::optional<RemoteStorage>& storage);

// Returns the option of a backend that takes the credential, unless the site names another; empty
// for backends that this program does not know.
[[nodiscard]] std::string_view usual_secret_option(std::string_view backend);

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
    int cpus = 0;      // per node; 0: not given
    int gpus = 0;      // per node
    std::vector<ExtraOption> extra_options;
};

// A storage account. Its file shares and blob containers are either directories that every node
// sees ("%s" in the path stands for the share or container), or storage that rclone opens.
struct StorageAccount {
    std::string file_share_directory;
    std::string blob_container_directory;
    bool read_only = false;
    std::optional<RemoteStorage> file_share_remote;
    std::optional<RemoteStorage> blob_container_remote;
    // The credential for jobs that bring no key: a file that only the job's user can read ("%u"
    // stands for the user's name). If empty, such jobs are refused if a credential is needed.
    std::string credentials_file;
};

struct FileServer {
    std::string directory;
};

// A mount that the admin defined. The mountCommand of unmanagedFileSystems may name it.
struct NamedMount {
    std::string directory;
    bool read_only = false;
};

// The site's own checks of the nodes of a job, before the job's preparation.
struct HealthChecks {
    std::string directory;  // of the programs; empty: there are no checks
    // How long one program and all of them together may take on a node, in seconds.
    int time_limit = 30;
    int total_time_limit = 120;
    int retries = 2;  // how often a job with a node that fails is queued again
};

// The admin's description of the site, from site.lua. Every key has a default: without a file, any
// vmSize is accepted and means the default partition, and storage accounts are directories below
// $BATCHAI_HOME/storage.
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
    bool any_vm_size = true;  // unknown sizes use the default partition; if false, they are refused
    std::map<std::string, StorageAccount, std::less<>> storage_accounts;
    // True if accounts that the site does not name are opened in Azure. Otherwise they are
    // directories of $BATCHAI_HOME.
    bool other_accounts_in_azure = false;
    int mount_timeout = 20;   // seconds for all mounts of a step; less than the plugin's timeout
    int flush_timeout = 300;  // seconds to write the rest to remote storage at the end of a step
    std::map<std::string, FileServer, std::less<>> file_servers;
    std::map<std::string, NamedMount, std::less<>> named_mounts;
    std::vector<std::pair<std::string, std::string>> environment;  // for every job

    // The directory of imported images, which every node sees under the same path. "%u" stands for
    // the user's name. If empty, it is $BATCHAI_HOME/images.
    std::string image_directory;
    std::string shared_image_directory;  // searched first; may be empty
    int shared_image_owner = 0;          // id of the user who fills it, besides root
    int image_cache_limit = 50;          // GiB in image_directory; 0: no limit
    std::set<std::string, std::less<>> insecure_registries;  // "host:port", in lower case
    bool image_entrypoint = false;  // run each command through the image's entrypoint
    std::vector<ContainerBind> container_binds;
    bool webhooks_over_http = false;  // jobs may tell webhooks without TLS of their end
    bool inject_mpi_bridge = true;    // show containers the node's libmpi_bridge

    HealthChecks health;
    // Jobs leave in Slurm's comment which nodes were bad (record/node_fault.hpp).
    bool note_failed_nodes = false;
    Policy policy;
};

// Evaluates site.lua and checks the name and type of each key. The file is Lua 5.4 and returns one
// table. It has only the libraries string, table and math, cannot access files or start processes,
// and is bounded in instructions and memory. An unknown key is an error that names the file and the
// key and suggests a similar one.
[[nodiscard]] base::Result<Site> load(const std::filesystem::path& path);

// Returns the keys that the file sets. It does not check them.
[[nodiscard]] base::Result<std::vector<std::string>> keys_given_by(
    const std::filesystem::path& path);

// Loads $BATCHAI_SITE if it is set (the file must exist), else the system's site.lua if it exists.
// Otherwise returns the defaults.
[[nodiscard]] base::Result<Site> load_default();

}  // namespace batchai::site
