// SPDX-License-Identifier: GPL-2.0-or-later
#include "clusters/volume_flags.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "job/parse.hpp"
#include "job/schema/storage_account.hpp"
#include "spank/protocol.h"

namespace batchai::clusters {

namespace {

void append(base::Value& volumes, std::string_view kind, base::Value volume) {
    base::Value list = volumes[kind];
    if (!list.is_array()) list = base::Value::Array{};
    list.array()->push_back(std::move(volume));
    volumes.set(kind, std::move(list));
}

template <typename T>
void move_to_end(std::vector<T>& of, std::vector<T> more) {
    of.insert(of.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<std::string> paths_of(const job::MountVolumes& volumes) {
    std::vector<std::string> paths;
    job::each_volume(volumes, [&](const auto& volume, std::size_t /*index*/) {
        paths.push_back(volume.relative_mount_path);
    });
    return paths;
}

bool overlap(const std::string& a, const std::string& b) {
    return (a + "/").starts_with(b + "/") || (b + "/").starts_with(a + "/");
}

// Checks the paths of both against each other. The parser has checked each only by itself.
base::Result<void> check_apart(const job::MountVolumes& of_file, const job::MountVolumes& more) {
    const auto taken = paths_of(of_file);
    for (const auto& path : paths_of(more)) {
        const auto other = std::find_if(taken.begin(), taken.end(),
                                        [&](const auto& one) { return overlap(one, path); });
        if (other == taken.end()) continue;
        return base::fail(
            fmt::format("the path \"{}\" of a volume on the command line overlaps the job file's "
                        "mount \"{}\"",
                        path, *other),
            "", "give it another with --afs-mount-path, --bfs-mount-path or --nfs-mount-path",
            base::ExitCode::bad_job_file);
    }
    return {};
}

}  // namespace

base::Value with_flags(base::Value volumes, const VolumeFlags& flags,
                       const std::optional<std::string>& account) {
    const auto name = account.value_or(std::string(job::account_placeholder));
    if (flags.file_share)
        append(
            volumes, job::AzureFileShare::key,
            base::Value::Object{{"azureFileUrl", fmt::format("https://{}.file.core.windows.net/{}",
                                                             name, *flags.file_share)},
                                {"relativeMountPath", flags.file_share_path}});
    if (flags.container)
        append(volumes, job::AzureBlobFileSystem::key,
               base::Value::Object{{"accountName", name},
                                   {"containerName", *flags.container},
                                   {"relativeMountPath", flags.container_path}});
    if (flags.file_server)
        append(volumes, job::FileServerMount::key,
               base::Value::Object{{"fileServer", base::Value::Object{{"id", *flags.file_server}}},
                                   {"relativeMountPath", flags.file_server_path},
                                   {"mountOptions", "rw"}});
    return volumes;
}

base::Result<job::Parsed> parse_volumes(const base::Value& volumes) {
    auto parsed = job::parse_mount_volumes(base::format_json(volumes));
    for (const auto& diagnostic : parsed.diagnostics) {
        if (diagnostic.severity == job::Severity::error)
            return base::fail(diagnostic.message, "", diagnostic.hint,
                              base::ExitCode::bad_job_file);
    }
    return parsed;
}

base::Result<void> add_volumes(job::JobSpec& spec, const VolumeFlags& flags,
                               const std::optional<std::string>& account) {
    const auto volumes = with_flags({}, flags, account);
    if (volumes.is_null()) return {};
    if (!account && (flags.file_share || flags.container)) {
        return base::fail("the storage account is not named",
                          flags.file_share ? "--afs-name" : "--bfs-name",
                          "add --storage-account-name, or set AZURE_BATCHAI_STORAGE_ACCOUNT");
    }
    auto parsed = parse_volumes(volumes);
    if (!parsed) {
        parsed.error().where = "volumes of the command line";
        return tl::unexpected(parsed.error());
    }
    auto& more = parsed->spec->mount_volumes;
    auto& all = spec.mount_volumes;
    TRY(check_apart(all, more));
    std::apply([&](auto... kind) { (move_to_end(all.*kind, std::move(more.*kind)), ...); },
               job::mount_kinds);
    return {};
}

namespace {

constexpr const char* key_variable = BATCHAI_STORAGE_KEY_VARIABLE;
// Options whose values are secrets, each by the shortest abbreviation that cannot mean another
// option: --storage-account-key, --account-key, --sas-token, --connection-string, --password.
constexpr std::array<std::string_view, 5> secret_options{"--storage-account-k", "--account-k",
                                                         "--sas", "--conn", "--pas"};
constexpr std::size_t file_limit = 4096;

std::optional<std::string>& taken_key() {
    static std::optional<std::string> key;
    return key;
}

void overwrite(char* text) {
    std::memset(text, 'x', std::strlen(text));
}

}  // namespace

void hide_storage_key(int count, char** words) {
    if (char* const value = std::getenv(key_variable)) {
        if (*value != '\0') taken_key() = value;
        // After unsetenv(), /proc still shows the memory of the initial environment.
        overwrite(value);
        unsetenv(key_variable);
    }
    for (int i = 1; i < count; ++i) {
        const std::string_view word = words[i];
        const bool is_secret =
            std::any_of(secret_options.begin(), secret_options.end(),
                        [&](std::string_view option) { return word.starts_with(option); });
        // --password has a short form as well.
        if (word.starts_with("-p") && word.size() > 2)
            overwrite(words[i] + 2);
        else if (word == "-p" && i + 1 < count)
            overwrite(words[++i]);
        if (!is_secret) continue;
        const std::size_t equals = word.find('=');
        if (equals != std::string_view::npos)
            overwrite(words[i] + equals + 1);
        else if (i + 1 < count)
            overwrite(words[++i]);
    }
}

std::optional<std::string> storage_key_of_environment() {
    return taken_key();
}

base::Result<std::string> storage_key_of_option(const std::string& value) {
    if (!value.starts_with('@')) return value;
    const std::string path = value.substr(1);
    const std::string text = TRY(base::read_file(path, file_limit));
    const std::string_view key = base::trim(std::string_view(text).substr(0, text.find('\n')));
    if (key.empty())
        return base::fail("has no key on its first line", path, {}, base::ExitCode::usage);
    return std::string(key);
}

}  // namespace batchai::clusters
