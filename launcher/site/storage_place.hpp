// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "site/site.hpp"

// Where the file shares and blob containers of a storage account are. Jobs that mount them and the
// commands that copy files to them ask here, so that both mean the same directories.
namespace batchai::site {

enum class StorageKind { file_shares, containers };

// Returns the key of site.lua that has the directories of this kind.
[[nodiscard]] std::string_view directory_key(StorageKind kind);

struct StoragePlace {
    enum class Where {
        launcher,  // in the launcher's own storage, $BATCHAI_HOME/storage
        site,      // in directories that the site names
        remote,    // in storage that rclone opens on the nodes
        azure,     // in Azure itself
        nowhere,   // the site has the account, but nothing of this kind
    };
    Where where = Where::nowhere;
    std::string parent;   // launcher: the directory in which each share is a directory
    std::string pattern;  // site: the path of a share, in which "%s" stands for its name
    bool read_only = false;

    // Whether the shares are directories.
    [[nodiscard]] bool is_local() const { return where == Where::launcher || where == Where::site; }
    // Returns the directory of a share or container. The place must be local.
    [[nodiscard]] std::string directory(std::string_view store) const;
};

// `storage_root` is the launcher's own storage.
[[nodiscard]] StoragePlace storage_place(const Site& site, std::string_view storage_root,
                                         std::string_view account, StorageKind kind);

// Returns the text with `by` in place of each `pattern`.
[[nodiscard]] std::string with_replaced(std::string text, std::string_view pattern,
                                        std::string_view by);

}  // namespace batchai::site
