// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "cli/output/terminal.hpp"
#include "cli/verbs/azure/storage.hpp"
#include "cli/verbs/tags.hpp"
#include "status/resource_view.hpp"
#include "user/parents.hpp"

namespace batchai::cli {
namespace {

namespace fs = std::filesystem;

struct AccountVerbOptions {
    std::string name;
    user::ParentOptions parents;
    std::optional<std::string> location;
    std::string sku = "Standard_RAGRS";
    std::vector<std::string> tags;
    bool yes = false;
};

AccountView view_of(const store::Store& store, const site::Site& site, const std::string& name) {
    const auto root = store.storage_root().string();
    return {.name = name,
            .record = {},
            .shares = site::storage_place(site, root, name, site::StorageKind::file_shares),
            .containers = site::storage_place(site, root, name, site::StorageKind::containers)};
}

Answer account_answer(const site::Site& site, const AccountView& view) {
    return Outcome{account_value(view, site.subscription, site.location), account_columns};
}

// Batch AI's rule for names. An account that the site names has the name that it has.
base::Result<void> check_new_name(const site::Site& site, const std::string& name) {
    if (site.storage_accounts.contains(name)) return {};
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || base::is_digit(c);
    });
    if (plain && name.size() >= 3 && name.size() <= 24) return {};
    return base::fail(
        fmt::format("{} is not a valid storage account name. Storage account name must be between "
                    "3 and 24 characters in length and use numbers and lower-case letters only.",
                    name),
        "--name", "", base::ExitCode::usage);
}

Answer account_create(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    TRY(check_new_name(site, options.name));
    const auto group = user::group_name(options.parents).value;
    auto view = view_of(store, site, options.name);
    view.record = TRY(find_account_record(store, options.name));
    if (view.record && view.record->key.group != group)
        return base::fail(
            fmt::format("The storage account named {} is already taken.", options.name),
            fmt::format("resource group {}", view.record->key.group),
            "choose another name, or name that group", base::ExitCode::refused);
    // As in Azure, creating an account that is there returns it.
    if (view.record) return account_answer(site, view);
    TRY(user::ensure_group(store, site, options.parents));
    const auto of_group = TRY(store.get<store::Group>({group}));
    store::StorageAccount account;
    account.key = {group, options.name};
    account.location = options.location.value_or(of_group.location);
    account.sku = options.sku;
    account.tags = tags_of(options.tags);
    account.creation_time = base::now();
    TRY(store.create(account));
    view.record = account;
    return account_answer(site, view);
}

base::Result<AccountView> find_account(const store::Store& store, const site::Site& site,
                                       const AccountVerbOptions& options) {
    auto view = view_of(store, site, options.name);
    view.record = TRY(find_account_record(store, options.name));
    if (options.parents.group) {
        if (!view.record || view.record->key.group != *options.parents.group)
            view.record =
                TRY(store.get<store::StorageAccount>({*options.parents.group, options.name}));
        return view;
    }
    std::error_code code;
    if (view.record || site.storage_accounts.contains(options.name) ||
        fs::is_directory(store.storage_root() / options.name, code))
        return view;
    return base::fail(fmt::format("Cannot find \"{}\" storage account.", options.name), "",
                      "`az storage account list -o table` shows all", base::ExitCode::not_found);
}

Answer account_show(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    return account_answer(site, TRY(find_account(store, site, options)));
}

// Without a group, also lists the accounts of the site and the directories of the user's own
// storage that have no record.
Answer account_list(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    std::map<std::string, AccountView> views;
    const auto add = [&, &store = store, &site = site](const std::string& name) -> AccountView& {
        return views.try_emplace(name, view_of(store, site, name)).first->second;
    };
    const auto chosen = user::group_name(options.parents);
    std::vector<std::string> groups;
    if (chosen.fallback) {
        for (const auto& group : TRY(store.list<store::Group>({})))
            groups.push_back(group.key.group);
        for (const auto& [name, account] : site.storage_accounts)
            add(name);
        std::error_code code;
        for (const auto& entry : base::entries_of(store.storage_root(), code)) {
            const auto name = entry.path().filename().string();
            if (entry.is_directory(code) &&
                store::check_name(store::kind<store::StorageAccount>, name))
                add(name);
        }
    } else {
        groups.push_back(chosen.value);
    }
    for (const auto& group : groups) {
        for (auto& account : TRY(store.list<store::StorageAccount>({group}))) {
            auto& view = add(account.key.account);
            view.record = account;
        }
    }
    Value::Array values;
    for (const auto& [name, view] : views)
        values.push_back(account_value(view, site.subscription, site.location));
    return Outcome{Value(std::move(values)), account_columns};
}

Answer account_delete(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    const auto view = TRY(find_account(store, site, options));
    const bool of_site = site.storage_accounts.contains(options.name);
    if (of_site && !view.record)
        return base::fail("the account is the site's, not yours", options.name,
                          "ask the admin; `az storage share delete` deletes a share, as far as you "
                          "may");
    const auto directory = store.storage_root() / options.name;
    std::error_code code;
    const bool has_files = !of_site && fs::exists(fs::symlink_status(directory, code));
    if (has_files && !options.yes)
        say(fmt::format("this deletes all files in {}", directory.string()));
    const auto agreed = TRY(confirm(options.yes));
    if (!agreed) return base::fail("operation cancelled");
    if (has_files) TRY(base::remove_tree(directory));
    if (of_site)
        say("the account's directories are the site's and stay; only your record is deleted");
    if (view.record) TRY(store.remove<store::StorageAccount>(view.record->key));
    return Outcome{};
}

Answer account_check_name(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    const auto valid = check_new_name(site, options.name);
    const auto record = valid ? TRY(find_account_record(store, options.name))
                              : std::optional<store::StorageAccount>();
    const bool taken = record || site.storage_accounts.contains(options.name);
    const Value reason = !valid  ? Value("AccountNameInvalid")
                         : taken ? Value("AlreadyExists")
                                 : Value();
    const Value message =
        !valid  ? Value(valid.error().what)
        : taken ? Value(fmt::format("The storage account named {} is already taken.", options.name))
                : Value();
    return Outcome{Value(Value::Object{{"message", message},
                                       {"nameAvailable", valid.has_value() && !taken},
                                       {"reason", reason}}),
                   {}};
}

Answer account_keys(const AccountVerbOptions& options) {
    const auto [store, site] = TRY(open_store_and_site());
    TRY(find_account(store, site, options));
    say("the account has no keys: its directories are opened with your own rights");
    return Outcome{Value(Value::Array{}), {}};
}

void add_account_name(Parser leaf, AccountVerbOptions& options,
                      const std::string& names = "--name,-n") {
    leaf.add_option(names, options.name, "Name of the storage account")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_group_option(leaf, options.parents);
}

}  // namespace

const Verbs storage_account_verbs("storage", 10, [](CommandTree& tree, Parser storage) {
    const Parser group = add_group(storage, "account", "Manage storage accounts");
    const std::string example = "batchai storage account ";
    const std::string named = " --name mystorage --resource-group team";
    {
        auto [leaf, options] = add_verb(
            tree, group, "create", "Make a storage account: a directory for shares and containers",
            example + "create --sku Standard_LRS" + named, account_create);
        add_account_name(leaf, *options);
        add_optional(leaf, "--location,-l", options->location, "Location [the group's]")
            .type_name("TEXT");
        leaf.add_option("--sku", options->sku, "Kept in the record, without effect")
            .type_name("SKU")
            .show_default();
        leaf.add_option("--tags", options->tags, "Tags, as key=value").type_name("TAG");
    }
    {
        auto [leaf, options] = add_verb(tree, group, "show", "Show a storage account",
                                        example + "show" + named, account_show);
        add_account_name(leaf, *options);
    }
    {
        auto [leaf, options] = add_verb(
            tree, group, "list",
            "List the storage accounts; without a group also those of the site and those that jobs "
            "have made",
            example + "list --output table", account_list);
        add_group_option(leaf, options->parents);
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "delete", "Delete a storage account with all its files",
                     example + "delete --yes" + named, account_delete);
        add_account_name(leaf, *options);
        leaf.add_flag("--yes,-y", options->yes, "Do not ask for confirmation");
    }
    {
        auto [leaf, options] =
            add_verb(tree, group, "check-name", "Say whether a name is valid and free",
                     example + "check-name --name mystorage", account_check_name);
        leaf.add_option("--name,-n", options->name, "Name of the storage account")
            .type_name("NAME")
            .required()
            .group(resource_arguments);
    }
    const Parser keys = add_group(group, "keys", "Keys of a storage account, which has none here");
    auto [leaf, options] =
        add_verb(tree, keys, "list", "Print an empty list: directories are opened without a key",
                 example + "keys list --account-name mystorage", account_keys);
    add_account_name(leaf, *options, "--account-name,-n");
});

}  // namespace batchai::cli
