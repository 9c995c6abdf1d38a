// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "site/table_reader.hpp"

namespace batchai::site {

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

}  // namespace batchai::site
