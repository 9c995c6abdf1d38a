// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/record.hpp"
#include "base/variable.hpp"

// The volumes of a job.
namespace batchai::plan {

using base::Variable;

enum class MountScope { job, cluster };
constexpr auto json_words(MountScope /*type*/) {
    return std::array{std::pair{std::string_view("job"), MountScope::job},
                      std::pair{std::string_view("cluster"), MountScope::cluster}};
}

// Remote storage that rclone shows as a directory. Each node runs its own rclone, as the user.
struct RemoteVolume {
    std::string backend;            // rclone's name for it: "smb", "azureblob", "webdav", …
    std::string path;               // share or container, then the directory in it
    std::vector<Variable> options;  // of the backend, by rclone's names; without secrets
    std::string secret_option;      // option that takes the credential; empty: there is none
    // Where the credential is: an entry of "secrets.json" in the plan's directory (mode 0600), or a
    // file that the site names. One of the two is set if secret_option is.
    std::string secret_name;
    std::string credentials_file;
    int file_mode = 0777;
    int directory_mode = 0777;

    bool operator==(const RemoteVolume&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("backend", &RemoteVolume::backend),
                          field("path", &RemoteVolume::path),
                          field("options", &RemoteVolume::options),
                          field("secretOption", &RemoteVolume::secret_option),
                          field("secretName", &RemoteVolume::secret_name),
                          field("credentialsFile", &RemoteVolume::credentials_file),
                          field("fileMode", &RemoteVolume::file_mode).within(0, 0777),
                          field("directoryMode", &RemoteVolume::directory_mode).within(0, 0777)};
    }
};

// A directory of the host, or remote storage, that is mounted below the job's (or cluster's) mount
// root. Only the job's private mount namespace has the mount.
struct Mount {
    std::string kind;    // the key in job.json: "azureFileShares", "fileServers", …
    std::string name;    // the user's name for it in messages: a URL or share name
    std::string source;  // absolute directory on every node; empty for remote storage
    std::string target;  // relative, below the mount root; no "." or ".." component
    MountScope scope = MountScope::job;
    bool read_only = false;
    // The source is in the launcher's default storage and is made on first use. Any other source
    // that is missing is an error.
    bool create_source = false;
    // The part of `source` that is trusted. The rest comes from the job file, and no symbolic link
    // in it may lead out of this part. Empty: all of `source` is trusted.
    std::string source_root;
    bool no_execute = false;
    std::optional<RemoteVolume> remote;
    int mount_seconds = 20;   // timeout for mounting
    int flush_seconds = 300;  // timeout for storing the rest on remote storage when a step ends

    bool operator==(const Mount&) const = default;

    static constexpr auto fields(auto field) {
        return std::tuple{field("kind", &Mount::kind),
                          field("name", &Mount::name),
                          field("source", &Mount::source),
                          field("target", &Mount::target),
                          field("scope", &Mount::scope),
                          field("readOnly", &Mount::read_only),
                          field("createSource", &Mount::create_source),
                          field("sourceRoot", &Mount::source_root),
                          field("noExecute", &Mount::no_execute),
                          field("remote", &Mount::remote),
                          field("mountSeconds", &Mount::mount_seconds).within(1),
                          field("flushSeconds", &Mount::flush_seconds).within(0)};
    }
};

}  // namespace batchai::plan
