// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/output/terminal.hpp"
#include "cli/verbs/azure/storage.hpp"
#include "status/output_directory.hpp"

// The verbs of `storage share` and `storage container`, which differ only in their words.
namespace batchai::cli {
namespace {

struct StoreOptions {
    StoreKind kind = StoreKind::share;
    AccountOptions account;
    std::string name;
    bool fail_on_exist = false;
    bool fail_not_exist = false;
    std::optional<std::string> prefix;
    std::optional<int> limit;
};

Value store_value(const StoreOptions& options, const storage::Entry& entry,
                  const std::string& path) {
    return options.kind == StoreKind::share ? share_value(entry, path)
                                            : container_value(entry, path);
}

Columns columns_of(const StoreOptions& options) {
    return options.kind == StoreKind::share ? share_columns : container_columns;
}

Answer store_create(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::writing));
    TRY(storage::check_store_name(options.name, word_of(options.kind)));
    const bool created = TRY(storage::create_store(storage.place, options.name));
    if (!created && options.fail_on_exist)
        return base::fail(fmt::format("The specified {} already exists.", word_of(options.kind)),
                          storage.place.directory(options.name), "", base::ExitCode::refused);
    return Outcome{Value(Value::Object{{"created", created}}), {}};
}

Answer store_exists(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::reading));
    const auto found = storage::open_store(storage.place, options.name, word_of(options.kind));
    if (!found && found.error().exit_code != base::ExitCode::not_found)
        return tl::unexpected(found.error());
    return Outcome{Value(Value::Object{{"exists", found.has_value()}}), {}};
}

Answer store_show(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::reading));
    const auto share = TRY(storage::open_store(storage.place, options.name, word_of(options.kind)));
    auto entry = TRY(share.examine(""));
    entry.name = options.name;
    return Outcome{store_value(options, entry, share.path_of("")), columns_of(options)};
}

Answer store_list(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::reading));
    Value::Array values;
    for (const auto& entry : TRY(storage::stores_of(storage.place))) {
        if (options.prefix && !entry.name.starts_with(*options.prefix)) continue;
        if (options.limit && values.size() >= static_cast<std::size_t>(*options.limit)) break;
        values.push_back(store_value(options, entry, storage.place.directory(entry.name)));
    }
    return Outcome{Value(std::move(values)), columns_of(options)};
}

// Does not ask, as the Azure CLI does not.
Answer store_delete(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::writing));
    TRY(storage::check_store_name(options.name, word_of(options.kind)));
    const bool deleted = TRY(storage::remove_store(storage.place, options.name));
    if (!deleted && options.fail_not_exist)
        return base::fail(fmt::format("The specified {} does not exist.", word_of(options.kind)),
                          storage.place.directory(options.name), "", base::ExitCode::not_found);
    return Outcome{Value(Value::Object{{"deleted", deleted}}), {}};
}

Answer store_url(const StoreOptions& options) {
    const auto storage = TRY(open_storage(options.account, options.kind, Access::reading));
    TRY(storage::check_store_name(options.name, word_of(options.kind)));
    return Outcome{Value(status::file_url(storage.place.directory(options.name))), {}};
}

void add_verbs(CommandTree& tree, Parser group, StoreKind kind) {
    const std::string word(word_of(kind));
    const auto example = fmt::format("batchai storage {} ", word);
    const std::string named = " --name data --account-name mystorage";
    const auto add = [&](const std::string& verb, const std::string& description,
                         Answer (*action)(const StoreOptions&), bool has_name = true) {
        auto [leaf, options] = add_verb(
            tree, group, verb, description,
            example + verb + (has_name ? named : " --account-name mystorage -o table"), action);
        options->kind = kind;
        if (has_name)
            leaf.add_option("--name,-n", options->name, fmt::format("Name of the {}", word))
                .type_name("NAME")
                .required()
                .group(resource_arguments);
        add_account_options(leaf, options->account);
        return std::pair(leaf, options);
    };
    {
        auto [leaf, options] = add("create", fmt::format("Make a {}", word), store_create);
        leaf.add_flag("--fail-on-exist", options->fail_on_exist,
                      "Fail if it exists, instead of printing false");
    }
    add("exists", fmt::format("Say whether a {} exists", word), store_exists);
    add("show", fmt::format("Show a {}, with its directory", word), store_show);
    {
        auto [leaf, options] =
            add("list", fmt::format("List the {}s of an account", word), store_list, false);
        add_optional(leaf, "--prefix", options->prefix, "Only names that begin so")
            .type_name("TEXT");
        add_optional(leaf, "--num-results", options->limit, "At most so many [all]")
            .type_name("NUMBER")
            .positive();
    }
    {
        auto [leaf, options] =
            add("delete", fmt::format("Delete a {} with all its files, without asking", word),
                store_delete);
        leaf.add_flag("--fail-not-exist", options->fail_not_exist,
                      "Fail if it does not exist, instead of printing false");
    }
    add("url", fmt::format("Print the URL of a {}'s directory", word), store_url);
}

}  // namespace

const Verbs storage_store_verbs("storage", 20, [](CommandTree& tree, Parser storage) {
    add_verbs(tree, add_group(storage, "share", "Manage file shares"), StoreKind::share);
    add_verbs(tree, add_group(storage, "container", "Manage blob containers"),
              StoreKind::container);
});

}  // namespace batchai::cli
