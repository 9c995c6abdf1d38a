// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/output/output.hpp"
#include "site/storage_place.hpp"
#include "storage/share.hpp"
#include "store/records.hpp"

// The JSON objects and table columns of storage, as the Azure CLI shows them.
namespace batchai::cli {

// A storage account: what a record, the site or a directory says of it.
struct AccountView {
    std::string name;
    std::optional<store::StorageAccount> record;
    site::StoragePlace shares;
    site::StoragePlace containers;
};

[[nodiscard]] Value account_value(const AccountView& account, const std::string& subscription,
                                  const std::string& location);

// A share or container. `path` is its directory on this host.
[[nodiscard]] Value share_value(const storage::Entry& entry, const std::string& path);
[[nodiscard]] Value container_value(const storage::Entry& entry, const std::string& path);

// A file or directory of a share. `name` is the name to show.
[[nodiscard]] Value file_value(const storage::Entry& entry, const std::string& name);
[[nodiscard]] Value blob_value(const storage::Entry& entry, const std::string& name);

// Returns {"etag": …, "lastModified": …}.
[[nodiscard]] Value upload_value(const storage::Entry& entry);

// Returns the name as UTF-8. A byte that is none, which the name of a file may have, becomes
// U+FFFD.
[[nodiscard]] std::string name_text(std::string_view name);

[[nodiscard]] Table account_columns(const Value& value);
[[nodiscard]] Table share_columns(const Value& value);
[[nodiscard]] Table container_columns(const Value& value);
[[nodiscard]] Table storage_file_columns(const Value& value);
[[nodiscard]] Table blob_columns(const Value& value);

}  // namespace batchai::cli
