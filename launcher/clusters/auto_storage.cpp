// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/auto_storage.hpp"

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "base/text.hpp"
#include "base/timestamp.hpp"
#include "cli/output/terminal.hpp"
#include "clusters/volume_flags.hpp"
#include "site/storage_place.hpp"
#include "storage/places.hpp"

namespace batchai::clusters {

namespace {

constexpr const char* auto_group = "batchaiautostorage";
constexpr std::string_view account_prefix = "bai";
constexpr const char* auto_share = "batchaishare";
constexpr const char* auto_container = "batchaicontainer";
constexpr std::size_t random_letters = 12;

std::string new_account_name() {
    std::string name(account_prefix);
    for (const char c : base::random_uuid()) {
        if (name.size() == account_prefix.size() + random_letters) break;
        if (base::is_digit(c)) name += static_cast<char>('g' + (c - '0'));
        if (c >= 'a' && c <= 'f') name += c;
    }
    return name;
}

base::Result<void> ensure_group(const store::Store& store, const site::Site& site) {
    if (store.get<store::Group>({auto_group})) return {};
    cli::say(fmt::format("Creating {} resource group for auto-storage account", auto_group));
    const auto made = store.create(store::Group{{auto_group}, site.location, {}, base::now()});
    // Another command may have made it in the meantime.
    if (made || made.error().exit_code == base::ExitCode::refused) return {};
    return made;
}

base::Result<std::string> ensure_account(const store::Store& store, const site::Site& site) {
    for (const auto& account : TRY(store.list<store::StorageAccount>({auto_group}))) {
        if (!account.key.account.starts_with(account_prefix)) continue;
        cli::say(fmt::format("Using existing {} storage account as an auto-storage account",
                             account.key.account));
        return account.key.account;
    }
    store::StorageAccount account;
    account.key = {auto_group, new_account_name()};
    account.location = site.location;
    account.sku = "Standard_LRS";
    account.creation_time = base::now();
    cli::say(fmt::format("Creating {} storage account", account.key.account));
    TRY(store.create(account));
    return account.key.account;
}

base::Result<void> ensure_store(const store::Store& store, const site::Site& site,
                                const std::string& account, site::StorageKind kind,
                                const char* name) {
    const auto place = site::storage_place(site, store.storage_root().string(), account, kind);
    if (!place.is_local())
        return base::fail("accounts that site.lua does not name are in Azure at this site",
                          "--use-auto-storage",
                          "mount a share of an account of the site with --afs-name");
    TRY(storage::create_store(place, name));
    return {};
}

}  // namespace

base::Result<base::Value> with_auto_storage(base::Value volumes, const store::Store& store,
                                            const site::Site& site) {
    TRY(ensure_group(store, site));
    const auto account = TRY(ensure_account(store, site));
    TRY(ensure_store(store, site, account, site::StorageKind::file_shares, auto_share));
    TRY(ensure_store(store, site, account, site::StorageKind::containers, auto_container));
    VolumeFlags flags;
    flags.file_share = auto_share;
    flags.file_share_path = "autoafs";
    flags.container = auto_container;
    flags.container_path = "autobfs";
    return with_flags(std::move(volumes), flags, account);
}

}  // namespace batchai::clusters
