// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "cli/tree/builder.hpp"
#include "cli/verbs/azure/storage_view.hpp"
#include "site/site.hpp"
#include "storage/places.hpp"
#include "storage/share.hpp"
#include "store/store.hpp"

// What the verbs of `az storage` have in common.
namespace batchai::cli {

// The options of all verbs that use an account.
struct AccountOptions {
    std::optional<std::string> name;
    std::optional<std::string> connection_string;
    // Accepted without effect: directories need no key.
    std::optional<std::string> key;
    std::optional<std::string> sas_token;
    std::optional<std::string> auth_mode;
    std::optional<std::string> timeout;
};

void add_account_options(Parser leaf, AccountOptions& options);

// The two kinds of storage in an account, with the words of their commands.
enum class StoreKind { share, container };
[[nodiscard]] std::string_view word_of(StoreKind kind);

enum class Access { reading, writing };

struct Storage {
    store::Store store;
    site::Site site;
    std::string account;  // its name
    site::StoragePlace place;
};

[[nodiscard]] base::Result<std::pair<store::Store, site::Site>> open_store_and_site();

// Returns the account that the options or the environment name. It must exist, and its shares or
// containers must be directories. An account that is read-only is refused for writing.
[[nodiscard]] base::Result<Storage> open_storage(const AccountOptions& options, StoreKind kind,
                                                 Access access);

// Returns the account's record in any group.
[[nodiscard]] base::Result<std::optional<store::StorageAccount>> find_account_record(
    const store::Store& store, const std::string& account);

// A share or container, and a path in it.
struct Location {
    storage::Share share;
    std::string path;  // clean
};

// Opens it. `name` may be "share/directory", as the Azure CLI takes it.
[[nodiscard]] base::Result<Location> open_location(const Storage& storage, StoreKind kind,
                                                   const std::string& name,
                                                   const std::optional<std::string>& path = {});

}  // namespace batchai::cli
