// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/verbs/azure/storage.hpp"
#include "cli/verbs/azure/storage_paths.hpp"
#include "cli/verbs/azure/transfer.hpp"
#include "status/output_directory.hpp"

namespace batchai::cli {
namespace {

struct FileOptions {
    AccountOptions account;
    std::string share;
    std::optional<std::string> path;
    std::string source;
    std::optional<std::string> destination;
    bool no_progress = false;
    storage::Range range;  // to download
    bool exclude_directories = false;
    std::optional<int> limit;
};

base::Result<Location> file_location(const FileOptions& options, Access access,
                                     const std::optional<std::string>& path) {
    return open_location(TRY(open_storage(options.account, StoreKind::share, access)),
                         StoreKind::share, options.share, path);
}

base::Result<storage::Entry> find_file(const Location& at) {
    auto entry = at.share.examine(at.path);
    const bool absent = !entry && entry.error().exit_code == base::ExitCode::not_found;
    if (absent || (entry && entry->kind == storage::EntryKind::directory))
        return base::fail("The specified resource does not exist.", at.share.path_of(at.path),
                          entry ? "it is a directory" : "", base::ExitCode::not_found);
    return entry;
}

Answer file_upload(const FileOptions& options) {
    const auto target = upload_path(options.path.value_or(""), options.source);
    const auto at = TRY(file_location(options, Access::writing, target));
    Transfer transfer(options.no_progress);
    TRY(transfer.upload(options.source, at.share, at.path));
    return Outcome{};
}

Answer file_download(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::reading, options.path));
    const auto entry = TRY(find_file(at));
    const auto local = download_path(options.destination, storage::name_of(at.path));
    Transfer transfer(options.no_progress);
    TRY(transfer.download(at.share, at.path, local, options.range));
    return Outcome{file_value(entry, entry.name), storage_file_columns};
}

Answer file_list(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::reading, options.path));
    Value::Array values;
    for (const auto& entry : TRY(at.share.list(at.path))) {
        if (options.exclude_directories && entry.kind == storage::EntryKind::directory) continue;
        if (options.limit && values.size() >= static_cast<std::size_t>(*options.limit)) break;
        values.push_back(file_value(entry, entry.name));
    }
    return Outcome{Value(std::move(values)), storage_file_columns};
}

Answer file_exists(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::reading, options.path));
    const auto found = find_file(at);
    if (!found && found.error().exit_code != base::ExitCode::not_found)
        return tl::unexpected(found.error());
    return Outcome{Value(Value::Object{{"exists", found.has_value()}}), {}};
}

Answer file_show(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::reading, options.path));
    const auto entry = TRY(find_file(at));
    return Outcome{file_value(entry, entry.name), storage_file_columns};
}

Answer file_delete(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::writing, options.path));
    TRY(at.share.remove_file(at.path));
    return Outcome{Value(Value::Object{{"deleted", true}}), {}};
}

Answer file_url_of(const FileOptions& options) {
    const auto at = TRY(file_location(options, Access::reading, options.path));
    return Outcome{Value(status::file_url(at.share.path_of(at.path))), {}};
}

using FileVerb = Answer (*)(const FileOptions&);

std::pair<Parser, std::shared_ptr<FileOptions>> add_file_verb(CommandTree& tree, Parser group,
                                                              const std::string& verb,
                                                              const std::string& description,
                                                              FileVerb action,
                                                              const std::string& example) {
    auto added = add_verb(
        tree, group, verb, description,
        fmt::format("batchai storage file {} {} --share-name data --account-name mystorage", verb,
                    example),
        action);
    auto& [leaf, options] = added;
    leaf.add_option("--share-name,-s", options->share, "Name of the share")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_account_options(leaf, options->account);
    return added;
}

void add_path(Parser leaf, FileOptions& options, const std::string& description, bool required) {
    add_optional(leaf, "--path,-p", options.path, description)
        .type_name("PATH")
        .required(required)
        .group(resource_arguments);
}

constexpr const char* path_text = "Path of the file in the share";

}  // namespace

const Verbs storage_file_verbs("storage file", 10, [](CommandTree& tree, Parser group) {
    {
        auto [leaf, options] = add_file_verb(tree, group, "upload", "Copy a file into a share",
                                             file_upload, "--source train.py --path cifar");
        leaf.add_option("--source", options->source, "The file").type_name("FILE").required();
        add_path(leaf, *options,
                 "Directory in the share, or the file's new path if its last part has a dot [the "
                 "share's own directory]",
                 false);
        leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    }
    {
        auto [leaf, options] = add_file_verb(tree, group, "download", "Copy a file out of a share",
                                             file_download, "--path cifar/model.h5");
        add_path(leaf, *options, path_text, true);
        add_optional(leaf, "--dest", options->destination,
                     "New file, or a directory for it [the current one]")
            .type_name("FILE");
        add_range_options(leaf, options->range);
        leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    }
    {
        auto [leaf, options] = add_file_verb(tree, group, "list", "List a directory of a share",
                                             file_list, "--path cifar");
        add_path(leaf, *options, "Path of the directory in the share [the share's own]", false);
        leaf.add_flag("--exclude-dir", options->exclude_directories, "List only files");
        add_optional(leaf, "--num-results", options->limit, "At most so many [all]")
            .type_name("NUMBER")
            .positive();
    }
    const std::string path = "--path cifar/model.h5";
    struct Simple {
        const char* verb;
        const char* description;
        FileVerb action;
    };
    for (const auto& [verb, description, action] :
         {Simple{"exists", "Say whether a file exists", file_exists},
          Simple{"show", "Show a file", file_show},
          Simple{"delete", "Delete a file, without asking", file_delete},
          Simple{"url", "Print the URL of a file", file_url_of}}) {
        auto [leaf, options] = add_file_verb(tree, group, verb, description, action, path);
        add_path(leaf, *options, path_text, true);
    }
});

}  // namespace batchai::cli
