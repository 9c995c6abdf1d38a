// SPDX-License-Identifier: GPL-2.0-or-later
#include "site/storage_place.hpp"

#include <fmt/format.h>

namespace batchai::site {

std::string_view directory_key(StorageKind kind) {
    return kind == StorageKind::file_shares ? "file_share_directory" : "blob_container_directory";
}

std::string with_replaced(std::string text, std::string_view pattern, std::string_view by) {
    for (std::size_t at = text.find(pattern); at != std::string::npos;
         at = text.find(pattern, at + by.size()))
        text.replace(at, pattern.size(), by);
    return text;
}

std::string StoragePlace::directory(std::string_view store) const {
    if (where == Where::launcher) return fmt::format("{}/{}", parent, store);
    return with_replaced(pattern, "%s", store);
}

StoragePlace storage_place(const Site& site, std::string_view storage_root,
                           std::string_view account, StorageKind kind) {
    using Where = StoragePlace::Where;
    const bool shares = kind == StorageKind::file_shares;
    StoragePlace place;
    const auto found = site.storage_accounts.find(account);
    if (found == site.storage_accounts.end()) {
        place.where = site.other_accounts_in_azure ? Where::azure : Where::launcher;
        place.parent =
            fmt::format("{}/{}/{}", storage_root, account, shares ? "file-shares" : "containers");
        return place;
    }
    const StorageAccount& of_site = found->second;
    place.read_only = of_site.read_only;
    place.pattern = shares ? of_site.file_share_directory : of_site.blob_container_directory;
    const bool remote =
        (shares ? of_site.file_share_remote : of_site.blob_container_remote).has_value();
    if (!place.pattern.empty())
        place.where = Where::site;
    else if (remote)
        place.where = Where::remote;
    return place;
}

}  // namespace batchai::site
