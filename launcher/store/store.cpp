// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/store.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/ids.hpp"
#include "base/parallel.hpp"
#include "base/process.hpp"
#include "base/text.hpp"
#include "store/directory.hpp"
#include "store/records.hpp"
#include "store/reservation.hpp"

namespace batchai::store {

namespace {

namespace fs = std::filesystem;
using base::Error;
using base::ExitCode;
using base::Result;

// Whether a resource of this kind is a record without a directory.
bool is_record(Kind kind) {
    return kind == Kind::cluster || kind == Kind::storage_account || kind == Kind::file_server;
}

// Returns the name of the record in the directory of a resource that has one.
std::string record_name(Kind kind) {
    if (kind == Kind::job) return record::JobFiles::record_name;
    return fmt::format("{}.json", kind == Kind::group ? "group" : kind_name(kind));
}

// The path of each resource. The caller has checked the names. The paths are strings because a list
// of thousands of jobs needs thousands of them, and joining fs::path objects takes much longer.
struct Paths {
    std::string home;

    explicit Paths(const fs::path& directory) : home(directory.string()) {}

    [[nodiscard]] std::string groups() const { return home + "/groups"; }
    [[nodiscard]] std::string of(const std::string& group) const { return groups() + "/" + group; }
    [[nodiscard]] std::string workspaces(const std::string& group) const {
        return of(group) + "/workspaces";
    }
    [[nodiscard]] std::string of(const WorkspaceKey& key) const {
        return workspaces(key.group) + "/" + key.workspace;
    }
    [[nodiscard]] std::string clusters(const WorkspaceKey& key) const {
        return of(key) + "/clusters";
    }
    [[nodiscard]] std::string of(const ClusterKey& key) const {
        return clusters(key.parent()) + "/" + key.cluster + ".json";
    }
    [[nodiscard]] std::string storage_accounts(const std::string& group) const {
        return of(group) + "/storage-accounts";
    }
    [[nodiscard]] std::string of(const StorageAccountKey& key) const {
        return storage_accounts(key.group) + "/" + key.account + ".json";
    }
    [[nodiscard]] std::string file_servers(const WorkspaceKey& key) const {
        return of(key) + "/file-servers";
    }
    [[nodiscard]] std::string of(const FileServerKey& key) const {
        return file_servers(key.parent()) + "/" + key.file_server + ".json";
    }
    [[nodiscard]] std::string experiments(const WorkspaceKey& key) const {
        return of(key) + "/experiments";
    }
    [[nodiscard]] std::string of(const ExperimentKey& key) const {
        return experiments(key.parent()) + "/" + key.experiment;
    }
    [[nodiscard]] std::string jobs(const ExperimentKey& key) const { return of(key) + "/jobs"; }
    [[nodiscard]] std::string of(const JobKey& key) const {
        return jobs(key.parent()) + "/" + key.job;
    }

    [[nodiscard]] std::string record(const std::string& group) const {
        return of(group) + "/" + record_name(Kind::group);
    }
    [[nodiscard]] std::string record(const WorkspaceKey& key) const {
        return of(key) + "/" + record_name(Kind::workspace);
    }
    [[nodiscard]] std::string record(const ExperimentKey& key) const {
        return of(key) + "/" + record_name(Kind::experiment);
    }
    [[nodiscard]] std::string record(const ClusterKey& key) const { return of(key); }
    [[nodiscard]] std::string record(const StorageAccountKey& key) const { return of(key); }
    [[nodiscard]] std::string record(const FileServerKey& key) const { return of(key); }
    [[nodiscard]] std::string record(const JobKey& key) const {
        return of(key) + "/" + record_name(Kind::job);
    }
};

// Returns the names of the entries that can be resources of this kind.
std::vector<std::string> names_of(Kind kind, const std::vector<std::string>& entries) {
    std::vector<std::string> names;
    for (const std::string& entry : entries) {
        std::string name = entry;
        if (is_record(kind)) {
            if (!name.ends_with(".json") || name.starts_with(".")) continue;
            name.resize(name.size() - 5);
        }
        if (check_name(kind, name)) names.push_back(std::move(name));
    }
    return names;
}

// Returns the names of the resources in the directory, for a message.
std::vector<std::string> existing(Kind kind, const fs::path& directory) {
    auto names = names_of(kind, names_in(directory).value_or(std::vector<std::string>{}));
    if (is_record(kind)) return names;
    std::erase_if(names, [&](const std::string& name) {
        std::error_code code;
        return !fs::exists(directory / name / record_name(kind), code);
    });
    return names;
}

// Returns the words of the command line for this kind.
std::string command_of(Kind kind) {
    if (kind == Kind::group) return "group";
    return kind == Kind::file_server ? "file-server" : std::string(kind_name(kind));
}

Error not_found(Kind kind, const std::string& name, const fs::path& directory) {
    const auto names = existing(kind, directory);
    const std::vector<std::string_view> views(names.begin(), names.end());
    Error error{
        fmt::format("there is no {} \"{}\"", kind_name(kind), name), {}, {}, ExitCode::not_found};
    constexpr std::ptrdiff_t most = 8;
    if (const auto near = base::nearest(name, views)) {
        error.hint = fmt::format("did you mean \"{}\"?", *near);
    } else if (names.empty()) {
        error.hint = fmt::format("there is none yet: create it with \"batchai {} create\"",
                                 command_of(kind));
    } else {
        const auto shown = std::min(static_cast<std::ptrdiff_t>(names.size()), most);
        error.hint =
            fmt::format("there are: {}{}", fmt::join(names.begin(), names.begin() + shown, ", "),
                        static_cast<std::ptrdiff_t>(names.size()) > most ? ", …" : "");
    }
    return error;
}

Error exists_already(Kind kind, const std::string& name, const fs::path& path) {
    return {fmt::format("the {} \"{}\" exists already", kind_name(kind), name), path.string(),
            "choose another name, or delete it first", ExitCode::refused};
}

// Fails if the resource has no record. `directory` is the one whose entries a message suggests.
Result<void> check_exists(Kind kind, const std::string& name, const std::string& record,
                          const std::string& directory) {
    std::error_code code;
    if (fs::exists(record, code)) return {};
    return tl::unexpected(not_found(kind, name, directory));
}

// check() checks a resource's name and that every parent exists, the outermost first. With
// `must_exist` the resource itself must exist too.
Result<void> check(const Paths& paths, const std::string& group, bool must_exist) {
    TRY(check_name(Kind::group, group));
    if (!must_exist) return {};
    return check_exists(Kind::group, group, paths.record(group), paths.groups());
}

Result<void> check(const Paths& paths, const WorkspaceKey& key, bool must_exist) {
    TRY(check_name(Kind::workspace, key.workspace));
    TRY(check(paths, key.group, true));
    if (!must_exist) return {};
    return check_exists(Kind::workspace, key.workspace, paths.record(key),
                        paths.workspaces(key.group));
}

Result<void> check(const Paths& paths, const ExperimentKey& key, bool must_exist) {
    TRY(check_name(Kind::experiment, key.experiment));
    TRY(check(paths, key.parent(), true));
    if (!must_exist) return {};
    return check_exists(Kind::experiment, key.experiment, paths.record(key),
                        paths.experiments(key.parent()));
}

Result<void> check(const Paths& paths, const ClusterKey& key, bool must_exist) {
    TRY(check_name(Kind::cluster, key.cluster));
    TRY(check(paths, key.parent(), true));
    if (!must_exist) return {};
    return check_exists(Kind::cluster, key.cluster, paths.record(key),
                        paths.clusters(key.parent()));
}

Result<void> check(const Paths& paths, const JobKey& key, bool must_exist) {
    TRY(check_name(Kind::job, key.job));
    TRY(check(paths, key.parent(), true));
    if (!must_exist) return {};
    auto exists = check_exists(Kind::job, key.job, paths.record(key), paths.jobs(key.parent()));
    if (exists) return exists;
    if (const auto begun = unfinished(paths.of(key))) exists.error() = begun->error(key.job);
    return exists;
}

Result<void> check(const Paths& paths, const StorageAccountKey& key, bool must_exist) {
    TRY(check_name(Kind::storage_account, key.account));
    TRY(check(paths, key.group, true));
    if (!must_exist) return {};
    return check_exists(Kind::storage_account, key.account, paths.record(key),
                        paths.storage_accounts(key.group));
}

Result<void> check(const Paths& paths, const FileServerKey& key, bool must_exist) {
    TRY(check_name(Kind::file_server, key.file_server));
    TRY(check(paths, key.parent(), true));
    if (!must_exist) return {};
    return check_exists(Kind::file_server, key.file_server, paths.record(key),
                        paths.file_servers(key.parent()));
}

// Returns `made`. If the name was taken, the error says so in terms of the resource.
Result<void> in_words(Result<void> made, Kind kind, const std::string& name, const fs::path& path) {
    if (made || made.error().exit_code != ExitCode::refused) return made;
    return tl::unexpected(exists_already(kind, name, path));
}

// Makes a directory with its record in it, which gets its final name in one step.
template <typename Key, typename Record>
Result<void> create_resource(const Paths& paths, Kind kind, const std::string& name, const Key& key,
                             const Record& record) {
    TRY(check(paths, key, false));
    const std::string text = TRY(readable(to_json(record)));
    const fs::path staged = TRY(new_directory(paths.home));
    TRY(base::create_exclusively(staged / record_name(kind), text, 0600));
    return in_words(publish_directory(staged, paths.of(key)), kind, name, paths.of(key));
}

// Makes the record of a resource without a directory.
template <typename Record>
Result<void> create_record(const Paths& paths, Kind kind, const std::string& name,
                           const Record& record) {
    TRY(check(paths, record.key, false));
    const std::string text = TRY(readable(to_json(record)));
    const fs::path target = paths.of(record.key);
    TRY(base::make_directories(target.parent_path(), 0700));
    return in_words(base::create_exclusively(target, text, 0600), kind, name, target);
}

template <typename Record, typename Key, typename Read>
Result<Record> load_unchecked(const Paths& paths, const Key& key, Read read) {
    const std::string path = paths.record(key);
    const std::string text = TRY(read_record(path));
    return read(text, path, key);
}

template <typename Record, typename Key, typename Read>
Result<Record> load(const Paths& paths, const Key& key, Read read) {
    TRY(check(paths, key, true));
    return load_unchecked<Record>(paths, key, read);
}

// Reads the records of resources whose parents are known to exist. `key_of` makes a key from a
// name. A name is skipped if it has no record, or lost it since the names were read. A record that
// cannot be read is an error, or one of `unreadable` if that is given.
template <typename Record, typename KeyOf, typename Read>
Result<std::vector<Record>> load_named(const Paths& paths, const std::vector<std::string>& names,
                                       KeyOf key_of, Read read,
                                       std::vector<base::Error>* unreadable = nullptr) {
    std::vector<std::optional<Result<Record>>> read_records(names.size());
    base::in_parallel(names.size(), [&](std::size_t i) {
        read_records[i].emplace(load_unchecked<Record>(paths, key_of(names[i]), read));
    });
    std::vector<Record> records;
    records.reserve(names.size());
    for (auto& record : read_records) {
        if (!*record && record->error().exit_code == ExitCode::not_found) continue;
        if (!*record && unreadable != nullptr) {
            unreadable->push_back(record->error());
            continue;
        }
        records.push_back(TRY(std::move(*record)));
    }
    return records;
}

// Reads the records in a directory. One that cannot be read is an error; one that does not exist
// has no records.
template <typename Record, typename KeyOf, typename Read>
Result<std::vector<Record>> load_all(const Paths& paths, Kind kind, const fs::path& directory,
                                     KeyOf key_of, Read read) {
    return load_named<Record>(paths, names_of(kind, TRY(names_in(directory))), key_of, read);
}

template <typename Record, typename Key, typename Read>
Result<Record> update_record(const fs::path& home, const Key& key,
                             const std::function<void(Record&)>& change, Read read) {
    const Paths paths{home};
    TRY(check(paths, key, true));
    const base::FileDescriptor lock = TRY(lock_updates(home));
    Record record = TRY(load_unchecked<Record>(paths, key, read));
    change(record);
    record.key = key;
    const std::string text = TRY(readable(to_json(record)));
    TRY(base::write_atomically(paths.record(key), text, 0600));
    return record;
}

template <typename Key>
Result<void> remove_resource(const Paths& paths, const Key& key) {
    TRY(check(paths, key, true));
    return discard(paths.home, paths.of(key));
}

}  // namespace

Result<Store> Store::open_default() {
    if (const auto set = base::variable("BATCHAI_HOME")) {
        if (!set->starts_with('/'))
            return base::fail(fmt::format("\"{}\" is not an absolute path", *set), "BATCHAI_HOME",
                              "set it to a directory that every node sees", ExitCode::usage);
        return Store(fs::path(*set).lexically_normal());
    }
    const char* home = std::getenv("HOME");
    if (home == nullptr || *home != '/') {
        const passwd* entry = getpwuid(getuid());
        home = entry == nullptr ? nullptr : entry->pw_dir;
    }
    if (home == nullptr || *home != '/')
        return base::fail("the user has no home directory", "HOME", "set BATCHAI_HOME",
                          ExitCode::usage);
    return Store(fs::path(home) / ".batchai");
}

Result<void> Store::create(const Group& group) const {
    return create_resource(Paths{home_}, Kind::group, group.name, group.name, group);
}

Result<void> Store::create(const Workspace& workspace) const {
    return create_resource(Paths{home_}, Kind::workspace, workspace.key.workspace, workspace.key,
                           workspace);
}

Result<void> Store::create(const Experiment& experiment) const {
    return create_resource(Paths{home_}, Kind::experiment, experiment.key.experiment,
                           experiment.key, experiment);
}

Result<void> Store::create(const Cluster& cluster) const {
    return create_record(Paths{home_}, Kind::cluster, cluster.key.cluster, cluster);
}

Result<void> Store::create(const StorageAccount& account) const {
    return create_record(Paths{home_}, Kind::storage_account, account.key.account, account);
}

Result<void> Store::create(const FileServer& server) const {
    return create_record(Paths{home_}, Kind::file_server, server.key.file_server, server);
}

Result<Group> Store::group(const std::string& name) const {
    return load<Group>(Paths{home_}, name, group_from_json);
}

Result<Workspace> Store::workspace(const WorkspaceKey& key) const {
    return load<Workspace>(Paths{home_}, key, workspace_from_json);
}

Result<Experiment> Store::experiment(const ExperimentKey& key) const {
    return load<Experiment>(Paths{home_}, key, experiment_from_json);
}

Result<Cluster> Store::cluster(const ClusterKey& key) const {
    return load<Cluster>(Paths{home_}, key, cluster_from_json);
}

Result<Job> Store::job(const JobKey& key) const {
    return load<Job>(Paths{home_}, key, job_from_json);
}

Result<StorageAccount> Store::storage_account(const StorageAccountKey& key) const {
    return load<StorageAccount>(Paths{home_}, key, storage_account_from_json);
}

Result<FileServer> Store::file_server(const FileServerKey& key) const {
    return load<FileServer>(Paths{home_}, key, file_server_from_json);
}

Result<std::vector<Group>> Store::groups() const {
    const Paths paths{home_};
    return load_all<Group>(
        paths, Kind::group, paths.groups(), [](const std::string& name) { return name; },
        group_from_json);
}

Result<std::vector<Workspace>> Store::workspaces(const std::string& group) const {
    const Paths paths{home_};
    TRY(check(paths, group, true));
    return load_all<Workspace>(
        paths, Kind::workspace, paths.workspaces(group),
        [&](const std::string& name) { return WorkspaceKey{.group = group, .workspace = name}; },
        workspace_from_json);
}

Result<std::vector<Experiment>> Store::experiments(const WorkspaceKey& key) const {
    const Paths paths{home_};
    TRY(check(paths, key, true));
    return load_all<Experiment>(
        paths, Kind::experiment, paths.experiments(key),
        [&](const std::string& name) {
            return ExperimentKey{
                .group = key.group, .workspace = key.workspace, .experiment = name};
        },
        experiment_from_json);
}

Result<std::vector<Cluster>> Store::clusters(const WorkspaceKey& key) const {
    const Paths paths{home_};
    TRY(check(paths, key, true));
    return load_all<Cluster>(
        paths, Kind::cluster, paths.clusters(key),
        [&](const std::string& name) {
            return ClusterKey{.group = key.group, .workspace = key.workspace, .cluster = name};
        },
        cluster_from_json);
}

Result<std::vector<StorageAccount>> Store::storage_accounts(const std::string& group) const {
    const Paths paths{home_};
    TRY(check(paths, group, true));
    return load_all<StorageAccount>(
        paths, Kind::storage_account, paths.storage_accounts(group),
        [&](const std::string& name) { return StorageAccountKey{.group = group, .account = name}; },
        storage_account_from_json);
}

Result<std::vector<FileServer>> Store::file_servers(const WorkspaceKey& key) const {
    const Paths paths{home_};
    TRY(check(paths, key, true));
    return load_all<FileServer>(
        paths, Kind::file_server, paths.file_servers(key),
        [&](const std::string& name) {
            return FileServerKey{
                .group = key.group, .workspace = key.workspace, .file_server = name};
        },
        file_server_from_json);
}

Result<std::vector<Job>> Store::jobs(const ExperimentKey& key) const {
    return jobs(key, TRY(job_names(key)));
}

Result<std::vector<std::string>> Store::job_names(const ExperimentKey& key) const {
    const Paths paths{home_};
    TRY(check(paths, key, true));
    return names_of(Kind::job, TRY(names_in(paths.jobs(key))));
}

Result<std::vector<Job>> Store::jobs(const ExperimentKey& key,
                                     const std::vector<std::string>& names,
                                     std::vector<base::Error>* unreadable) const {
    return load_named<Job>(
        Paths{home_}, names,
        [&](const std::string& name) {
            return JobKey{.group = key.group,
                          .workspace = key.workspace,
                          .experiment = key.experiment,
                          .job = name};
        },
        job_from_json, unreadable);
}

Result<std::vector<Job>> Store::jobs_of_workspace(const WorkspaceKey& key) const {
    const auto all = TRY(experiments(key));
    std::vector<Job> found;
    for (const Experiment& one : all) {
        auto inside = jobs(one.key);
        if (!inside && inside.error().exit_code == ExitCode::not_found) continue;
        if (!inside) return inside;
        found.insert(found.end(), inside->begin(), inside->end());
    }
    return found;
}

Result<void> Store::remove_group(const std::string& name) const {
    return remove_resource(Paths{home_}, name);
}

Result<void> Store::remove(const WorkspaceKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<void> Store::remove(const ExperimentKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<void> Store::remove(const ClusterKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<void> Store::remove(const StorageAccountKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<void> Store::remove(const FileServerKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<void> Store::remove(const JobKey& key) const {
    return remove_resource(Paths{home_}, key);
}

Result<Cluster> Store::update(const ClusterKey& key,
                              const std::function<void(Cluster&)>& change) const {
    return update_record(home_, key, change, cluster_from_json);
}

Result<Job> Store::update(const JobKey& key, const std::function<void(Job&)>& change) const {
    return update_record(home_, key, change, job_from_json);
}

Result<bool> Store::free_name(const JobKey& key, const EndLeftover& end_leftover) const {
    const Paths paths{home_};
    TRY(check(paths, key, false));
    return reclaim(home_, paths.of(key), end_leftover);
}

std::vector<std::string> Store::abandoned_names(const ExperimentKey& key,
                                                const std::vector<std::string>& names) const {
    const fs::path jobs = Paths{home_}.jobs(key);
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const std::string& name) {
                     const auto state = unfinished(jobs / name);
                     return state && state->abandoned;
                 });
    return found;
}

Result<JobReservation> Store::reserve(const JobKey& key, const EndLeftover& end_leftover) const {
    const Paths paths{home_};
    TRY(check(paths, key, false));
    const record::JobFiles files(paths.of(key));
    std::error_code code;
    if (fs::exists(files.directory(), code)) TRY(reclaim(home_, files.directory(), end_leftover));
    const fs::path staged = TRY(new_directory(home_));
    const record::JobFiles inside(staged);
    for (const fs::path& directory : {inside.attempts(), inside.shared()})
        TRY(base::make_directories(directory, 0700));
    const std::string token = base::random_uuid();
    TRY(base::create_exclusively(staged / marker_name(token), marker_text(), 0600));
    if (auto made = publish_directory(staged, files.directory()); !made) {
        if (made.error().exit_code != ExitCode::refused) return tl::unexpected(made.error());
        if (fs::exists(files.record(), code))
            return tl::unexpected(exists_already(Kind::job, key.job, files.directory()));
        auto error = unfinished(files.directory()).value_or(Unfinished{}).error(key.job);
        error.where = files.directory().string();
        error.exit_code = ExitCode::refused;
        return tl::unexpected(std::move(error));
    }
    return JobReservation(files, key, token, home_);
}

record::JobFiles Store::job_files(const JobKey& key) const {
    return record::JobFiles(Paths{home_}.of(key));
}

}  // namespace batchai::store
