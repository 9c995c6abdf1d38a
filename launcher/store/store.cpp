// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/store.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/text.hpp"
#include "base/uuid.hpp"
#include "store/directory.hpp"
#include "store/marker.hpp"
#include "store/names.hpp"
#include "store/paths.hpp"
#include "store/serialize.hpp"

namespace batchai::store {

namespace {

namespace fs = std::filesystem;
using base::Error;
using base::ExitCode;
using base::Result;

tl::unexpected<Error> pass_on(const Error& error) {
    return tl::unexpected<Error>(error);
}

// The names of the existing resources of one kind in `directory`.
std::vector<std::string> existing(Kind kind, const fs::path& directory) {
    std::vector<std::string> found;
    for (const std::string& entry : names_in(directory).value_or(std::vector<std::string>{})) {
        std::string name = entry;
        if (kind == Kind::cluster) {
            if (!name.ends_with(".json") || name.starts_with(".")) continue;
            name.resize(name.size() - 5);
        } else {
            std::error_code code;
            if (!fs::exists(
                    directory / name /
                        fmt::format("{}.json", kind == Kind::group ? "group" : kind_name(kind)),
                    code))
                continue;
        }
        if (check_name(kind, name)) found.push_back(std::move(name));
    }
    return found;
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
                                 kind == Kind::group ? "group" : kind_name(kind));
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

// Names are checked and every parent's record is looked for, the outermost first.
Result<void> check(const Paths& paths, const std::string& group, bool must_exist) {
    if (auto good = check_name(Kind::group, group); !good) return good;
    std::error_code code;
    if (must_exist && !fs::exists(paths.record(group), code))
        return tl::unexpected<Error>(not_found(Kind::group, group, paths.groups()));
    return {};
}

Result<void> check(const Paths& paths, const WorkspaceKey& key, bool must_exist) {
    if (auto good = check_name(Kind::workspace, key.workspace); !good) return good;
    if (auto good = check(paths, key.group, true); !good) return good;
    std::error_code code;
    if (must_exist && !fs::exists(paths.record(key), code))
        return tl::unexpected<Error>(
            not_found(Kind::workspace, key.workspace, paths.workspaces(key.group)));
    return {};
}

Result<void> check(const Paths& paths, const ExperimentKey& key, bool must_exist) {
    if (auto good = check_name(Kind::experiment, key.experiment); !good) return good;
    if (auto good = check(paths, key.parent(), true); !good) return good;
    std::error_code code;
    if (must_exist && !fs::exists(paths.record(key), code))
        return tl::unexpected<Error>(
            not_found(Kind::experiment, key.experiment, paths.experiments(key.parent())));
    return {};
}

Result<void> check(const Paths& paths, const ClusterKey& key, bool must_exist) {
    if (auto good = check_name(Kind::cluster, key.cluster); !good) return good;
    if (auto good = check(paths, key.parent(), true); !good) return good;
    std::error_code code;
    if (must_exist && !fs::exists(paths.record(key), code))
        return tl::unexpected<Error>(
            not_found(Kind::cluster, key.cluster, paths.clusters(key.parent())));
    return {};
}

Result<void> check(const Paths& paths, const JobKey& key, bool must_exist) {
    if (auto good = check_name(Kind::job, key.job); !good) return good;
    if (auto good = check(paths, key.parent(), true); !good) return good;
    std::error_code code;
    if (must_exist && !fs::exists(paths.record(key), code))
        return tl::unexpected<Error>(not_found(Kind::job, key.job, paths.jobs(key.parent())));
    return {};
}

Result<void> make_home(const fs::path& home) {
    return base::make_directories(home, 0700);
}

// A directory with its record in it, under its final name in one step.
Result<void> create_directory(const Paths& paths, const fs::path& target,
                              const std::string& record_name, const std::string& text) {
    if (auto made = make_home(paths.home); !made) return made;
    auto staged = new_directory(paths.home);
    if (!staged) return pass_on(staged.error());
    if (auto made = base::create_exclusively(*staged / record_name, text, 0600); !made) return made;
    return publish_directory(*staged, target);
}

// The error of creating `name`, in the resource's words where the name was taken.
Result<void> in_words(Result<void> made, Kind kind, const std::string& name, const fs::path& path) {
    if (made || made.error().exit_code != ExitCode::refused) return made;
    return tl::unexpected<Error>(exists_already(kind, name, path));
}

template <typename Record, typename Key, typename Read>
Result<Record> load(const Paths& paths, const Key& key, Read read) {
    if (auto good = check(paths, key, true); !good) return pass_on(good.error());
    const fs::path path = paths.record(key);
    auto text = read_record(path);
    if (!text) return pass_on(text.error());
    return read(*text, path.string(), key);
}

template <typename Record, typename Show>
Result<std::vector<Record>> load_all(Kind kind, const fs::path& directory, Show show) {
    std::vector<Record> records;
    // A directory that cannot be read is an error, one that is not there is an empty list.
    if (auto names = names_in(directory); !names) return pass_on(names.error());
    for (const std::string& name : existing(kind, directory)) {
        auto record = show(name);
        // Removed since it was listed.
        if (!record && record.error().exit_code == ExitCode::not_found) continue;
        if (!record) return pass_on(record.error());
        records.push_back(std::move(*record));
    }
    return records;
}

template <typename Key>
Result<void> remove_at(const Paths& paths, const Key& key, const fs::path& path) {
    if (auto good = check(paths, key, true); !good) return good;
    return discard(paths.home, path);
}

}  // namespace

Result<Store> Store::open_default() {
    if (const char* set = std::getenv("BATCHAI_HOME"); set != nullptr && *set != '\0') {
        if (*set != '/')
            return base::fail(fmt::format("\"{}\" is not an absolute path", set), "BATCHAI_HOME",
                              "set it to a directory that every node sees", ExitCode::usage);
        return Store(fs::path(set).lexically_normal());
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
    const Paths paths{home_};
    if (auto good = check(paths, group.name, false); !good) return good;
    return in_words(create_directory(paths, paths.of(group.name), "group.json", to_json(group)),
                    Kind::group, group.name, paths.of(group.name));
}

Result<void> Store::create(const Workspace& workspace) const {
    const Paths paths{home_};
    if (auto good = check(paths, workspace.key, false); !good) return good;
    const fs::path target = paths.of(workspace.key);
    return in_words(create_directory(paths, target, "workspace.json", to_json(workspace)),
                    Kind::workspace, workspace.key.workspace, target);
}

Result<void> Store::create(const Experiment& experiment) const {
    const Paths paths{home_};
    if (auto good = check(paths, experiment.key, false); !good) return good;
    const fs::path target = paths.of(experiment.key);
    return in_words(create_directory(paths, target, "experiment.json", to_json(experiment)),
                    Kind::experiment, experiment.key.experiment, target);
}

Result<void> Store::create(const Cluster& cluster) const {
    const Paths paths{home_};
    if (auto good = check(paths, cluster.key, false); !good) return good;
    const fs::path target = paths.of(cluster.key);
    if (auto made = base::make_directories(target.parent_path(), 0700); !made) return made;
    return in_words(base::create_exclusively(target, to_json(cluster), 0600), Kind::cluster,
                    cluster.key.cluster, target);
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

Result<std::vector<Group>> Store::groups() const {
    return load_all<Group>(Kind::group, Paths{home_}.groups(),
                           [&](const std::string& name) { return group(name); });
}

Result<std::vector<Workspace>> Store::workspaces(const std::string& group) const {
    const Paths paths{home_};
    if (auto good = check(paths, group, true); !good) return pass_on(good.error());
    return load_all<Workspace>(Kind::workspace, paths.workspaces(group),
                               [&](const std::string& name) {
                                   return workspace(WorkspaceKey{group, name});
                               });
}

Result<std::vector<Experiment>> Store::experiments(const WorkspaceKey& key) const {
    const Paths paths{home_};
    if (auto good = check(paths, key, true); !good) return pass_on(good.error());
    return load_all<Experiment>(
        Kind::experiment, paths.experiments(key), [&](const std::string& name) {
            return experiment(ExperimentKey{key.group, key.workspace, name});
        });
}

Result<std::vector<Cluster>> Store::clusters(const WorkspaceKey& key) const {
    const Paths paths{home_};
    if (auto good = check(paths, key, true); !good) return pass_on(good.error());
    return load_all<Cluster>(Kind::cluster, paths.clusters(key), [&](const std::string& name) {
        return cluster(ClusterKey{key.group, key.workspace, name});
    });
}

Result<std::vector<Job>> Store::jobs(const ExperimentKey& key) const {
    const Paths paths{home_};
    if (auto good = check(paths, key, true); !good) return pass_on(good.error());
    return load_all<Job>(Kind::job, paths.jobs(key), [&](const std::string& name) {
        return job(JobKey{key.group, key.workspace, key.experiment, name});
    });
}

Result<std::vector<Job>> Store::jobs_of_workspace(const WorkspaceKey& key) const {
    auto all = experiments(key);
    if (!all) return pass_on(all.error());
    std::vector<Job> found;
    for (const Experiment& one : *all) {
        auto inside = jobs(one.key);
        if (!inside && inside.error().exit_code == ExitCode::not_found) continue;
        if (!inside) return inside;
        found.insert(found.end(), inside->begin(), inside->end());
    }
    return found;
}

Result<void> Store::remove_group(const std::string& name) const {
    const Paths paths{home_};
    return remove_at(paths, name, paths.of(name));
}

Result<void> Store::remove(const WorkspaceKey& key) const {
    const Paths paths{home_};
    return remove_at(paths, key, paths.of(key));
}

Result<void> Store::remove(const ExperimentKey& key) const {
    const Paths paths{home_};
    return remove_at(paths, key, paths.of(key));
}

Result<void> Store::remove(const ClusterKey& key) const {
    const Paths paths{home_};
    return remove_at(paths, key, paths.of(key));
}

Result<void> Store::remove(const JobKey& key) const {
    const Paths paths{home_};
    return remove_at(paths, key, paths.of(key));
}

Result<Cluster> Store::update(const ClusterKey& key,
                              const std::function<void(Cluster&)>& change) const {
    auto record = cluster(key);
    if (!record) return record;
    change(*record);
    record->key = key;
    auto written = base::write_atomically(Paths{home_}.record(key), to_json(*record), 0600);
    if (!written) return pass_on(written.error());
    return record;
}

Result<Job> Store::update(const JobKey& key, const std::function<void(Job&)>& change) const {
    auto record = job(key);
    if (!record) return record;
    change(*record);
    record->key = key;
    auto written = base::write_atomically(Paths{home_}.record(key), to_json(*record), 0600);
    if (!written) return pass_on(written.error());
    return record;
}

Result<JobReservation> Store::reserve(const JobKey& key) const {
    const Paths paths{home_};
    if (auto good = check(paths, key, false); !good) return pass_on(good.error());
    const record::JobFiles files(paths.of(key));
    std::error_code code;
    if (fs::exists(files.directory(), code)) {
        auto freed = reclaim(home_, files.directory());
        if (!freed) return pass_on(freed.error());
    }
    auto staged = new_directory(home_);
    if (!staged) return pass_on(staged.error());
    const record::JobFiles inside(*staged);
    for (const fs::path& directory : {inside.attempts(), inside.shared()}) {
        if (auto made = base::make_directories(directory, 0700); !made)
            return pass_on(made.error());
    }
    const std::string token = base::random_uuid();
    auto marked = base::create_exclusively(*staged / marker_name(token), marker_text(), 0600);
    if (!marked) return pass_on(marked.error());
    if (auto made = publish_directory(*staged, files.directory()); !made) {
        if (made.error().exit_code != ExitCode::refused) return pass_on(made.error());
        if (fs::exists(files.record(), code))
            return pass_on(exists_already(Kind::job, key.job, files.directory()));
        return base::fail(
            fmt::format("the job \"{}\" is being created by another process", key.job),
            files.directory().string(), "wait for it, or choose another name", ExitCode::refused);
    }
    return JobReservation(files, key, token, home_);
}

record::JobFiles Store::job_files(const JobKey& key) const {
    return record::JobFiles(Paths{home_}.of(key));
}

}  // namespace batchai::store
