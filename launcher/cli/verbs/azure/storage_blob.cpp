// SPDX-License-Identifier: GPL-2.0-or-later
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/verbs/azure/storage.hpp"
#include "cli/verbs/azure/transfer.hpp"
#include "status/output_directory.hpp"

namespace batchai::cli {
namespace {

struct BlobOptions {
    AccountOptions account;
    std::string container;
    std::string name;  // its path in the container
    std::string file;
    bool no_progress = false;
    storage::Range range;  // to download
    std::optional<std::string> prefix;
    std::optional<int> limit;
};

base::Result<Location> blob_location(const BlobOptions& options, Access access) {
    return open_location(TRY(open_storage(options.account, StoreKind::container, access)),
                         StoreKind::container, options.container, options.name);
}

base::Result<storage::Entry> find_blob(const Location& at) {
    auto entry = at.share.examine(at.path);
    const bool absent = !entry && entry.error().exit_code == base::ExitCode::not_found;
    if (absent || (entry && entry->kind == storage::EntryKind::directory))
        return base::fail("The specified blob does not exist.", at.share.path_of(at.path), "",
                          base::ExitCode::not_found);
    return entry;
}

Answer blob_upload(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::writing));
    if (at.path.empty())
        return base::fail("the blob has no name", "--name", "", base::ExitCode::usage);
    Transfer transfer(options.no_progress);
    // Directories of a container are only parts of its blobs' names.
    TRY(at.share.make_directories(storage::directory_of(at.path)));
    TRY(transfer.upload(options.file, at.share, at.path));
    return Outcome{upload_value(TRY(at.share.examine(at.path))), {}};
}

Answer blob_download(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::reading));
    const auto entry = TRY(find_blob(at));
    Transfer transfer(options.no_progress);
    TRY(transfer.download(at.share, at.path, download_path(options.file, storage::name_of(at.path)),
                          options.range));
    return Outcome{blob_value(entry, at.path), blob_columns};
}

Answer blob_list(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::reading));
    Value::Array values;
    // A path behind the container's name is where the names begin.
    for (const auto& entry : TRY(at.share.files_below(at.path))) {
        if (options.prefix && !entry.name.starts_with(*options.prefix)) continue;
        if (options.limit && values.size() >= static_cast<std::size_t>(*options.limit)) break;
        values.push_back(
            blob_value(entry, at.path.empty() ? entry.name : at.path + '/' + entry.name));
    }
    return Outcome{Value(std::move(values)), blob_columns};
}

Answer blob_exists(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::reading));
    const auto found = find_blob(at);
    if (!found && found.error().exit_code != base::ExitCode::not_found)
        return tl::unexpected(found.error());
    return Outcome{Value(Value::Object{{"exists", found.has_value()}}), {}};
}

Answer blob_show(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::reading));
    const auto entry = TRY(find_blob(at));
    return Outcome{blob_value(entry, at.path), blob_columns};
}

Answer blob_delete(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::writing));
    TRY(find_blob(at));
    TRY(at.share.remove_file(at.path));
    return Outcome{};
}

Answer blob_url(const BlobOptions& options) {
    const auto at = TRY(blob_location(options, Access::reading));
    return Outcome{Value(status::file_url(at.share.path_of(at.path))), {}};
}

using BlobVerb = Answer (*)(const BlobOptions&);

std::pair<Parser, std::shared_ptr<BlobOptions>> add_blob_verb(CommandTree& tree, Parser group,
                                                              const std::string& verb,
                                                              const std::string& description,
                                                              BlobVerb action,
                                                              const std::string& example) {
    auto added = add_verb(
        tree, group, verb, description,
        fmt::format("batchai storage blob {}{} --container-name data --account-name mystorage",
                    verb, example),
        action);
    auto& [leaf, options] = added;
    leaf.add_option("--container-name,-c", options->container, "Name of the container")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
    add_account_options(leaf, options->account);
    return added;
}

void add_blob_name(Parser leaf, BlobOptions& options) {
    leaf.add_option("--name,-n", options.name, "Name of the blob, which may have slashes")
        .type_name("NAME")
        .required()
        .group(resource_arguments);
}

}  // namespace

const Verbs storage_blob_verbs("storage blob", 10, [](CommandTree& tree, Parser group) {
    const std::string named = " --name model/weights.h5";
    {
        auto [leaf, options] = add_blob_verb(tree, group, "upload", "Copy a file into a container",
                                             blob_upload, " --file weights.h5" + named);
        add_blob_name(leaf, *options);
        leaf.add_option("--file,-f", options->file, "The file").type_name("FILE").required();
        leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    }
    {
        auto [leaf, options] =
            add_blob_verb(tree, group, "download", "Copy a file out of a container", blob_download,
                          " --file weights.h5" + named);
        add_blob_name(leaf, *options);
        leaf.add_option("--file,-f", options->file, "New file, or a directory for it")
            .type_name("FILE")
            .required();
        add_range_options(leaf, options->range);
        leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    }
    {
        auto [leaf, options] =
            add_blob_verb(tree, group, "list", "List the files of a container", blob_list, "");
        add_optional(leaf, "--prefix", options->prefix, "Only names that begin so")
            .type_name("TEXT");
        add_optional(leaf, "--num-results", options->limit, "At most so many [all]")
            .type_name("NUMBER")
            .positive();
    }
    struct Simple {
        const char* verb;
        const char* description;
        BlobVerb action;
    };
    for (const auto& [verb, description, action] :
         {Simple{"exists", "Say whether a blob exists", blob_exists},
          Simple{"show", "Show a blob", blob_show},
          Simple{"delete", "Delete a blob, without asking", blob_delete},
          Simple{"url", "Print the URL of a blob", blob_url}}) {
        auto [leaf, options] = add_blob_verb(tree, group, verb, description, action, named);
        add_blob_name(leaf, *options);
    }
});

}  // namespace batchai::cli
