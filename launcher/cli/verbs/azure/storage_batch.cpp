// SPDX-License-Identifier: GPL-2.0-or-later
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "cli/output/terminal.hpp"
#include "cli/verbs/azure/storage.hpp"
#include "cli/verbs/azure/transfer.hpp"
#include "job/syntax/utf8.hpp"
#include "status/output_directory.hpp"
#include "storage/copy.hpp"
#include "storage/pattern.hpp"

// upload-batch, download-batch and delete-batch, of files and of blobs.
namespace batchai::cli {
namespace {

namespace fs = std::filesystem;

struct BatchOptions {
    StoreKind kind = StoreKind::share;
    AccountOptions account;
    std::string source;
    std::string destination;
    std::optional<std::string> destination_path;
    std::optional<std::string> pattern;
    bool dry_run = false;
    bool no_progress = false;
};

// A share or container as the user has named it: by name, or with a URL such as
// https://ACCOUNT.file.core.windows.net/SHARE, which names the account as well.
struct NamedStore {
    AccountOptions account;
    std::string name;  // may be followed by a path
};

base::Result<NamedStore> named_store(const BatchOptions& options, const std::string& text) {
    constexpr std::string_view scheme = "https://";
    NamedStore out{.account = options.account, .name = text};
    if (text.find("://") == std::string::npos) return out;
    const std::string_view rest =
        std::string_view(text).substr(std::min(scheme.size(), text.size()));
    const auto host = rest.substr(0, rest.find('/'));
    const auto dot = host.find('.');
    if (!text.starts_with(scheme) || dot == 0 || dot == std::string_view::npos ||
        rest.size() < host.size() + 2)
        return base::fail("is not a URL of a share or container", job::printable(text),
                          "write https://ACCOUNT.file.core.windows.net/SHARE, or the name alone",
                          base::ExitCode::usage);
    const std::string account(host.substr(0, dot));
    if (out.account.name && *out.account.name != account)
        return base::fail(fmt::format("the URL is of the account \"{}\", and --account-name says "
                                      "\"{}\"",
                                      account, *out.account.name),
                          job::printable(text), "leave out one of the two", base::ExitCode::usage);
    out.account.name = account;
    out.name = rest.substr(host.size() + 1);
    return out;
}

base::Result<Location> batch_location(const BatchOptions& options, Access access,
                                      const std::string& store,
                                      const std::optional<std::string>& path = {}) {
    const auto named = TRY(named_store(options, store));
    return open_location(TRY(open_storage(named.account, options.kind, access)), options.kind,
                         named.name, path);
}

bool is_chosen(const BatchOptions& options, const std::string& name) {
    return !options.pattern || storage::matches(*options.pattern, name);
}

std::string below(const std::string& directory, const std::string& name) {
    return directory.empty() ? name : directory + "/" + name;
}

// Returns the paths of the files below a directory of the user's, sorted. Links to directories are
// not followed; links to files are. Sets `exit_code` if one of them cannot be examined.
base::Result<std::vector<std::string>> local_files(const std::string& directory, int& exit_code) {
    std::vector<std::string> files;
    std::error_code code;
    fs::recursive_directory_iterator entry(directory, code);
    if (code) return base::system_error("list", directory, code.value());
    for (; entry != fs::recursive_directory_iterator(); entry.increment(code)) {
        std::error_code of_type;
        const auto type = entry->status(of_type).type();
        if (type == fs::file_type::none) {
            exit_code = 1;
            warn(fmt::format("{} is not copied: {}", job::printable(entry->path().string()),
                             of_type.message()));
        }
        if (type == fs::file_type::regular)
            files.push_back(entry->path().lexically_relative(directory).string());
    }
    if (code) return base::system_error("list", directory, code.value());
    std::sort(files.begin(), files.end());
    return files;
}

// Says so if the copy failed because the file has been removed since it was listed. The batch goes
// on.
bool has_vanished(const base::Result<void>& copied, const std::string& name) {
    if (copied || copied.error().exit_code != base::ExitCode::not_found) return false;
    warn(fmt::format("{} was removed before it could be copied", job::printable(name)));
    return true;
}

Answer upload_batch(const BatchOptions& options) {
    const auto at = TRY(
        batch_location(options, Access::writing, options.destination, options.destination_path));
    int exit_code = 0;
    const auto files = TRY(local_files(options.source, exit_code));
    Value::Array urls;
    Transfer transfer(options.no_progress);
    for (const auto& file : files) {
        if (!is_chosen(options, file)) continue;
        const auto path = below(at.path, file);
        if (options.dry_run) {
            say(fmt::format("would upload {}", job::printable(path)));
        } else {
            TRY(at.share.make_directories(storage::directory_of(path)));
            const auto done =
                transfer.upload((fs::path(options.source) / file).string(), at.share, path);
            if (has_vanished(done, file)) {
                exit_code = 1;
                continue;
            }
            TRY(done);
        }
        urls.emplace_back(status::file_url(at.share.path_of(path)));
    }
    return Outcome{.value = Value(std::move(urls)), .columns = {}, .exit_code = exit_code};
}

Answer download_batch(const BatchOptions& options) {
    const auto at = TRY(batch_location(options, Access::reading, options.source));
    std::error_code code;
    if (!fs::is_directory(options.destination, code))
        return base::fail("is not a directory", options.destination, "make it first",
                          base::ExitCode::not_found);
    const auto entries = TRY(at.share.files_below(at.path));
    Value::Array names;
    int exit_code = 0;
    Transfer transfer(options.no_progress);
    for (const auto& entry : entries) {
        // What is still being uploaded, or was left by a killed upload, is not a file yet.
        const bool incomplete = storage::is_incomplete_copy(storage::name_of(entry.name));
        if (incomplete || !is_chosen(options, entry.name)) continue;
        const auto local = (fs::path(options.destination) / entry.name).string();
        if (options.dry_run) {
            say(fmt::format("would download {}", job::printable(entry.name)));
        } else {
            TRY(base::make_directories(fs::path(local).parent_path(), 0777));
            const auto done = transfer.download(at.share, below(at.path, entry.name), local);
            if (has_vanished(done, entry.name)) {
                exit_code = 1;
                continue;
            }
            TRY(done);
        }
        names.emplace_back(name_text(entry.name));
    }
    return Outcome{.value = Value(std::move(names)), .columns = {}, .exit_code = exit_code};
}

Answer delete_batch(const BatchOptions& options) {
    const auto at = TRY(batch_location(options, Access::writing, options.source));
    int count = 0;
    for (const auto& entry : TRY(at.share.files_below(at.path))) {
        if (!is_chosen(options, entry.name)) continue;
        ++count;
        if (options.dry_run) {
            say(fmt::format("would delete {}", job::printable(entry.name)));
            continue;
        }
        const auto removed = at.share.remove_file(below(at.path, entry.name));
        // Somebody else may have deleted it in the meantime.
        if (!removed && removed.error().exit_code != base::ExitCode::not_found)
            return tl::unexpected(removed.error());
    }
    if (!options.dry_run) say(fmt::format("{} {} deleted", count, count == 1 ? "file" : "files"));
    return Outcome{};
}

struct StoreWords {
    std::string group;  // "file" or "blob"
    std::string store;  // "share" or "container"
};

void add_common(Parser leaf, BatchOptions& options) {
    add_optional(
        leaf, "--pattern", options.pattern,
        "Only paths that match: * stands for any text with its slashes, ? for a byte, [a-z] "
        "for one of these")
        .type_name("PATTERN");
    leaf.add_flag("--dryrun", options.dry_run, "Only say what would be done");
    add_account_options(leaf, options.account);
}

void add_upload(CommandTree& tree, Parser group, StoreKind kind, const StoreWords& words) {
    auto [leaf, options] =
        add_verb(tree, group, "upload-batch",
                 fmt::format("Copy all files below a directory into a {}", words.store),
                 fmt::format("batchai storage {} upload-batch --source data --destination train "
                             "--account-name mystorage --pattern '*.csv'",
                             words.group),
                 upload_batch);
    options->kind = kind;
    leaf.add_option("--source,-s", options->source, "The directory").type_name("FILE").required();
    leaf.add_option("--destination,-d", options->destination,
                    fmt::format("The {}, or {}/PATH", words.store, words.store))
        .type_name("NAME")
        .required();
    add_optional(leaf, "--destination-path", options->destination_path,
                 "Directory in it, which is made if it is missing")
        .type_name("PATH");
    leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    add_common(leaf, *options);
}

void add_download(CommandTree& tree, Parser group, StoreKind kind, const StoreWords& words) {
    auto [leaf, options] =
        add_verb(tree, group, "download-batch",
                 fmt::format("Copy all files of a {} into a directory", words.store),
                 fmt::format("batchai storage {} download-batch --source train --destination . "
                             "--account-name mystorage",
                             words.group),
                 download_batch);
    options->kind = kind;
    leaf.add_option("--source,-s", options->source,
                    fmt::format("The {}, or {}/PATH", words.store, words.store))
        .type_name("NAME")
        .required();
    leaf.add_option("--destination,-d", options->destination, "The directory, which must exist")
        .type_name("FILE")
        .required();
    leaf.add_flag("--no-progress", options->no_progress, "Do not show how far it is");
    add_common(leaf, *options);
}

void add_delete(CommandTree& tree, Parser group, StoreKind kind, const StoreWords& words) {
    auto [leaf, options] =
        add_verb(tree, group, "delete-batch",
                 fmt::format("Delete files of a {}, without asking; directories stay", words.store),
                 fmt::format("batchai storage {} delete-batch --source train --pattern '*.tmp' "
                             "--account-name mystorage",
                             words.group),
                 delete_batch);
    options->kind = kind;
    leaf.add_option("--source,-s", options->source,
                    fmt::format("The {}, or {}/PATH", words.store, words.store))
        .type_name("NAME")
        .required();
    add_common(leaf, *options);
}

void add_batch_verbs(CommandTree& tree, Parser group, StoreKind kind) {
    const StoreWords words{kind == StoreKind::share ? "file" : "blob", std::string(word_of(kind))};
    add_upload(tree, group, kind, words);
    add_download(tree, group, kind, words);
    add_delete(tree, group, kind, words);
}

}  // namespace

const Verbs share_batch_verbs("storage file", 20, [](CommandTree& tree, Parser file) {
    add_batch_verbs(tree, file, StoreKind::share);
});

const Verbs container_batch_verbs("storage blob", 20, [](CommandTree& tree, Parser blob) {
    add_batch_verbs(tree, blob, StoreKind::container);
});

}  // namespace batchai::cli
