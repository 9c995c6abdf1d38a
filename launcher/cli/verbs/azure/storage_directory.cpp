// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>

#include <fmt/format.h>

#include "cli/verbs/azure/storage.hpp"

namespace batchai::cli {
namespace {

struct DirectoryOptions {
    AccountOptions account;
    std::string share;
    std::string name;  // a path in the share
    bool fail_on_exist = false;
    bool fail_not_exist = false;
};

base::Result<Location> directory_location(const DirectoryOptions& options, Access access) {
    return open_location(TRY(open_storage(options.account, StoreKind::share, access)),
                         StoreKind::share, options.share, options.name);
}

base::Result<std::optional<storage::Entry>> find_directory(const Location& at) {
    auto entry = at.share.examine(at.path);
    if (!entry && entry.error().exit_code == base::ExitCode::not_found)
        return std::optional<storage::Entry>();
    if (!entry) return tl::unexpected(entry.error());
    if (entry->kind != storage::EntryKind::directory) return std::optional<storage::Entry>();
    return std::optional(*entry);
}

Answer directory_create(const DirectoryOptions& options) {
    const auto at = TRY(directory_location(options, Access::writing));
    const bool created = TRY(at.share.make_directory(at.path));
    if (!created && options.fail_on_exist)
        return base::fail("The specified resource already exists.", at.share.path_of(at.path), "",
                          base::ExitCode::refused);
    return Outcome{Value(Value::Object{{"created", created}}), {}};
}

Answer directory_exists(const DirectoryOptions& options) {
    const auto at = TRY(directory_location(options, Access::reading));
    return Outcome{Value(Value::Object{{"exists", TRY(find_directory(at)).has_value()}}), {}};
}

base::Error missing(const Location& at) {
    return {"The specified resource does not exist.", at.share.path_of(at.path), "",
            base::ExitCode::not_found};
}

Answer directory_show(const DirectoryOptions& options) {
    const auto at = TRY(directory_location(options, Access::reading));
    const auto entry = TRY(find_directory(at));
    if (!entry) return tl::unexpected(missing(at));
    return Outcome{file_value(*entry, entry->name), storage_file_columns};
}

Answer directory_list(const DirectoryOptions& options) {
    const auto at = TRY(directory_location(options, Access::reading));
    Value::Array values;
    for (const auto& entry : TRY(at.share.list(at.path))) {
        if (entry.kind == storage::EntryKind::directory)
            values.push_back(file_value(entry, entry.name));
    }
    return Outcome{Value(std::move(values)), storage_file_columns};
}

Answer directory_delete(const DirectoryOptions& options) {
    const auto at = TRY(directory_location(options, Access::writing));
    if (at.path.empty())
        return base::fail("this is the share itself", options.share,
                          "`az storage share delete` deletes it", base::ExitCode::usage);
    const auto deleted = at.share.remove_directory(at.path);
    const bool absent = !deleted && deleted.error().exit_code == base::ExitCode::not_found;
    if (!deleted && !absent) return tl::unexpected(deleted.error());
    if (absent && options.fail_not_exist) return tl::unexpected(missing(at));
    return Outcome{Value(Value::Object{{"deleted", !absent}}), {}};
}

}  // namespace

const Verbs storage_directory_verbs("storage", 30, [](CommandTree& tree, Parser storage) {
    const Parser group = add_group(storage, "directory", "Directories of a share");
    const auto add = [&](const std::string& verb, const std::string& description,
                         Answer (*action)(const DirectoryOptions&), bool needs_name = true) {
        auto [leaf, options] =
            add_verb(tree, group, verb, description,
                     fmt::format("batchai storage directory {} --name cifar --share-name data "
                                 "--account-name mystorage",
                                 verb),
                     action);
        leaf.add_option("--name,-n", options->name, "Path of the directory in the share")
            .type_name("PATH")
            .required(needs_name)
            .group(resource_arguments);
        leaf.add_option("--share-name,-s", options->share, "Name of the share")
            .type_name("NAME")
            .required()
            .group(resource_arguments);
        add_account_options(leaf, options->account);
        return std::pair(leaf, options);
    };
    {
        auto [leaf, options] =
            add("create", "Make a directory, whose parent must exist", directory_create);
        leaf.add_flag("--fail-on-exist", options->fail_on_exist,
                      "Fail if it exists, instead of printing false");
    }
    add("exists", "Say whether a directory exists", directory_exists);
    add("show", "Show a directory", directory_show);
    add("list", "List the directories in a directory or in the share", directory_list, false);
    {
        auto [leaf, options] =
            add("delete", "Delete a directory, which must be empty", directory_delete);
        leaf.add_flag("--fail-not-exist", options->fail_not_exist,
                      "Fail if it does not exist, instead of printing false");
    }
});

}  // namespace batchai::cli
