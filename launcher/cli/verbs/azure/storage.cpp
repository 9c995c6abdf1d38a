// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/azure/storage.hpp"

#include <filesystem>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/process.hpp"
#include "base/text.hpp"
#include "user/config.hpp"

namespace batchai::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* account_arguments = "Storage Account Arguments";

// Returns the account of "DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…".
std::optional<std::string> account_of(std::string_view connection_string) {
    constexpr std::string_view key = "AccountName=";
    for (const std::string_view part : base::split(connection_string, ';')) {
        if (part.starts_with(key)) return std::string(part.substr(key.size()));
    }
    return std::nullopt;
}

base::Result<std::string> account_name(const AccountOptions& options) {
    if (options.name) return *options.name;
    const auto connection = options.connection_string
                                ? options.connection_string
                                : base::variable("AZURE_STORAGE_CONNECTION_STRING");
    if (options.connection_string || !base::variable("AZURE_STORAGE_ACCOUNT")) {
        if (connection) {
            if (auto name = account_of(*connection)) return *name;
            return base::fail("has no AccountName=…", "connection string", "",
                              base::ExitCode::usage);
        }
    }
    if (auto name = base::variable("AZURE_STORAGE_ACCOUNT")) return *name;
    return base::fail("the storage account is not named", "--account-name",
                      "add --account-name, or set AZURE_STORAGE_ACCOUNT", base::ExitCode::usage);
}

// Returns the names of all accounts that a message can suggest.
std::vector<std::string> known_accounts(const store::Store& store, const site::Site& site) {
    std::vector<std::string> names;
    for (const auto& [name, account] : site.storage_accounts)
        names.push_back(name);
    if (const auto groups = store.list<store::Group>({})) {
        for (const auto& group : *groups) {
            const auto accounts = store.list<store::StorageAccount>(group.key);
            if (!accounts) continue;
            for (const auto& account : *accounts)
                names.push_back(account.key.account);
        }
    }
    return names;
}

base::Error unknown_account(const store::Store& store, const site::Site& site,
                            const std::string& account) {
    const auto names = known_accounts(store, site);
    const std::vector<std::string_view> views(names.begin(), names.end());
    const auto near = base::nearest(account, views);
    return {fmt::format("Cannot find \"{}\" storage account.", account), "--account-name",
            near ? fmt::format("did you mean \"{}\"?", *near)
                 : fmt::format("`az storage account create --name {}` makes it", account),
            base::ExitCode::not_found};
}

base::Result<void> check_place(const Storage& storage, StoreKind kind, Access access) {
    using Where = site::StoragePlace::Where;
    const auto refuse = [&](std::string what, std::string hint) {
        return base::fail(std::move(what), storage.account, std::move(hint));
    };
    switch (storage.place.where) {
        case Where::launcher:
        case Where::site:
            break;
        case Where::remote:
        case Where::azure:
            return refuse(
                "the storage of this account is opened by rclone on the nodes of a job, and these "
                "commands reach only directories",
                "mount it in a job, or use rclone or the Azure CLI for it");
        case Where::nowhere:
            return refuse(fmt::format("the site has no {}s in this account", word_of(kind)),
                          fmt::format("ask the admin to add {} to it in site.lua",
                                      site::directory_key(kind == StoreKind::share
                                                              ? site::StorageKind::file_shares
                                                              : site::StorageKind::containers)));
    }
    if (access == Access::writing && storage.place.read_only)
        return refuse("the site lets this account only be read", "ask the admin");
    return {};
}

}  // namespace

std::string_view word_of(StoreKind kind) {
    return kind == StoreKind::share ? "share" : "container";
}

void add_account_options(Parser leaf, AccountOptions& options) {
    const std::string note = " (accepted without effect: directories need no key)";
    add_optional(leaf, "--account-name", options.name, "Storage account [$AZURE_STORAGE_ACCOUNT]")
        .type_name("NAME")
        .group(account_arguments);
    add_optional(leaf, "--connection-string", options.connection_string,
                 "Text that has the account's name [$AZURE_STORAGE_CONNECTION_STRING]")
        .type_name("TEXT")
        .group(account_arguments);
    add_optional(leaf, "--account-key", options.key, "Its key" + note)
        .type_name("KEY")
        .group(account_arguments);
    add_optional(leaf, "--sas-token", options.sas_token, "A signature" + note)
        .type_name("TEXT")
        .group(account_arguments);
    add_optional(leaf, "--auth-mode", options.auth_mode, "key or login" + note)
        .type_name("MODE")
        .group(account_arguments);
    add_optional(leaf, "--timeout", options.timeout,
                 "Accepted without effect: Ctrl-C ends a command that takes too long")
        .type_name("SECONDS")
        .group(account_arguments);
}

base::Result<std::pair<store::Store, site::Site>> open_store_and_site() {
    TRY(user::user_config());
    auto store = TRY(store::Store::open_default());
    auto site = TRY(site::load_default());
    return std::pair(std::move(store), std::move(site));
}

base::Result<std::optional<store::StorageAccount>> find_account_record(const store::Store& store,
                                                                       const std::string& account) {
    TRY(store::check_name(store::kind<store::StorageAccount>, account));
    for (const auto& group : TRY(store.list<store::Group>({}))) {
        const auto found = store.get<store::StorageAccount>({group.key.group, account});
        if (found) return std::optional(*found);
        if (found.error().exit_code != base::ExitCode::not_found)
            return tl::unexpected(found.error());
    }
    return std::optional<store::StorageAccount>();
}

base::Result<Storage> open_storage(const AccountOptions& options, StoreKind kind, Access access) {
    const auto name = TRY(account_name(options));
    TRY(store::check_name(store::kind<store::StorageAccount>, name));
    auto [store, site] = TRY(open_store_and_site());
    auto place = site::storage_place(
        site, store.storage_root().string(), name,
        kind == StoreKind::share ? site::StorageKind::file_shares : site::StorageKind::containers);
    Storage storage{std::move(store), std::move(site), name, std::move(place)};
    if (storage.place.where == site::StoragePlace::Where::launcher) {
        // A job that has mounted a share of an account has made its directory.
        std::error_code code;
        const bool has_files = fs::is_directory(storage.store.storage_root() / name, code);
        if (!has_files && !TRY(find_account_record(storage.store, name)))
            return tl::unexpected(unknown_account(storage.store, storage.site, name));
    }
    TRY(check_place(storage, kind, access));
    return storage;
}

base::Result<Location> open_location(const Storage& storage, StoreKind kind,
                                     const std::string& name,
                                     const std::optional<std::string>& path) {
    const auto slash = name.find('/');
    const auto below = slash == std::string::npos ? "" : name.substr(slash);
    auto clean = TRY(storage::clean_path(below + "/" + path.value_or("")));
    return Location{TRY(storage::open_store(storage.place, name.substr(0, slash), word_of(kind))),
                    std::move(clean)};
}

const Verbs storage_group("", 110, [](CommandTree& /*tree*/, Parser app) {
    add_group(app, "storage", "Storage accounts: directories with file shares and blob containers");
});

const Verbs storage_subgroups("storage", 40, [](CommandTree& /*tree*/, Parser storage) {
    add_group(storage, "file", "Files of a share");
    add_group(storage, "blob", "Files of a container");
});

}  // namespace batchai::cli
