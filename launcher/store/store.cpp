// SPDX-License-Identifier: GPL-2.0-or-later
#include "store/store.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <span>

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

// The names of a resource whose kind is known.
using Path = std::span<const std::string>;

// The path of each resource. The caller has checked the names. The paths are strings because a list
// of thousands of jobs needs thousands of them, and joining fs::path objects takes much longer.
class Paths {
  public:
    explicit Paths(const fs::path& home) : home_(home.string()) {}

    // Returns the directory of all resources of one parent.
    [[nodiscard]] std::string all(const Kind& kind, Path parent) const {
        const std::string above = kind.parent == nullptr ? home_ : of(*kind.parent, parent);
        return fmt::format("{}/{}", above, kind.plural);
    }
    // Returns the directory of the resource, or its record if it has none.
    [[nodiscard]] std::string of(const Kind& kind, Path names) const {
        return fmt::format("{}/{}{}", all(kind, names.first(names.size() - 1)), names.back(),
                           kind.has_directory() ? "" : ".json");
    }
    [[nodiscard]] std::string record(const Kind& kind, Path names) const {
        return kind.has_directory() ? fmt::format("{}/{}", of(kind, names), kind.record)
                                    : of(kind, names);
    }

  private:
    std::string home_;
};

// Returns the names of the entries that can be resources of this kind.
std::vector<std::string> names_of(const Kind& kind, const std::vector<std::string>& entries) {
    std::vector<std::string> names;
    for (const std::string& entry : entries) {
        std::string name = entry;
        if (!kind.has_directory()) {
            if (!name.ends_with(".json") || name.starts_with(".")) continue;
            name.resize(name.size() - 5);
        }
        if (check_name(kind, name)) names.push_back(std::move(name));
    }
    return names;
}

// Says that a resource is not there, and which are. A directory need not have a record, but there
// may be thousands on a file server, so they are looked at only until there are enough to be named.
Error not_found(const Kind& kind, const std::string& name, const fs::path& directory) {
    constexpr std::size_t most = 8;
    const auto is_there = [&](std::string_view other) {
        std::error_code code;
        return !kind.has_directory() || fs::exists(directory / other / kind.record, code);
    };
    const auto names = names_of(kind, names_in(directory).value_or(std::vector<std::string>{}));
    std::vector<std::string_view> others(names.begin(), names.end());
    Error error{fmt::format("there is no {} \"{}\"", kind.name, name), {}, {}, ExitCode::not_found};
    if (const auto near = base::nearest(name, others); near && is_there(*near)) {
        error.hint = fmt::format("did you mean \"{}\"?", *near);
        return error;
    }
    std::vector<std::string_view> shown;
    for (auto other = others.begin(); other != others.end() && shown.size() <= most; ++other) {
        if (is_there(*other)) shown.push_back(*other);
    }
    const bool more = shown.size() > most;
    if (more) shown.pop_back();
    error.hint =
        shown.empty()
            ? fmt::format("there is none yet: create it with \"batchai {} create\"", kind.command)
            : fmt::format("there are: {}{}", fmt::join(shown, ", "), more ? ", …" : "");
    return error;
}

Error exists_already(const Kind& kind, const std::string& name, const fs::path& path) {
    return {fmt::format("the {} \"{}\" exists already", kind.name, name), path.string(),
            "choose another name, or delete it first", ExitCode::refused};
}

// Checks a resource's name and that every parent exists, the outermost first. With `must_exist` the
// resource itself must exist too.
Result<void> check(const Paths& paths, const Kind& kind, Path names, bool must_exist) {
    TRY(check_name(kind, names.back()));
    const Path parent = names.first(names.size() - 1);
    if (kind.parent != nullptr) TRY(check(paths, *kind.parent, parent, true));
    if (!must_exist) return {};
    std::error_code code;
    const std::string record = paths.record(kind, names);
    if (fs::exists(record, code)) return {};
    // A file server that refuses or does not answer has not said that there is nothing.
    if (code) return base::system_error("look for", record, code.value());
    // Only the directories of jobs can be reserved.
    if (const auto begun = unfinished(paths.of(kind, names)))
        return tl::unexpected(begun->error(names.back()));
    return tl::unexpected(not_found(kind, names.back(), paths.all(kind, parent)));
}

// Checks what list() is given: the parent must exist.
Result<void> check_parent(const Paths& paths, const Kind& kind, Path parent) {
    return kind.parent == nullptr ? Result<void>() : check(paths, *kind.parent, parent, true);
}

// Writes the record of a new resource. One that has a directory gets its final name in one step,
// with the record in it.
Result<void> write_new(const fs::path& home, const Kind& kind, const fs::path& path,
                       const std::string& text) {
    if (!kind.has_directory()) {
        TRY(base::make_directories(path.parent_path(), 0700));
        return base::create_exclusively(path, text, 0600);
    }
    const fs::path staged = TRY(new_directory(home));
    TRY(base::create_exclusively(staged / kind.record, text, 0600));
    return publish_directory(staged, path);
}

// Makes the key of a resource from that of its parent.
template <typename Key, typename Parent>
Key key_below(const Parent& parent, const std::string& name) {
    if constexpr (requires { parent.experiment; })
        return {parent.group, parent.workspace, parent.experiment, name};
    else if constexpr (requires { parent.workspace; })
        return {parent.group, parent.workspace, name};
    else if constexpr (requires { parent.group; })
        return {parent.group, name};
    else
        return {name};
}

template <typename Record>
Result<Record> load_unchecked(const Paths& paths, const KeyOf<Record>& key) {
    constexpr std::size_t longest = 4UL << 20U;
    const std::string path = paths.record(kind<Record>, key.names());
    return from_json<Record>(TRY(base::read_file(path, longest)), path, key);
}

// Reads the records of resources whose parent is known to exist. A name is skipped if it has no
// record, or lost it since the names were read. A record that cannot be read is an error, or one of
// `unreadable` if that is given.
template <typename Record>
Result<std::vector<Record>> load_named(const Paths& paths, const ParentKeyOf<Record>& parent,
                                       const std::vector<std::string>& names,
                                       std::vector<base::Error>* unreadable = nullptr) {
    std::vector<std::optional<Result<Record>>> read_records(names.size());
    base::in_parallel(names.size(), [&](std::size_t i) {
        read_records[i].emplace(
            load_unchecked<Record>(paths, key_below<KeyOf<Record>>(parent, names[i])));
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

template <typename Record>
Result<void> Store::create(const Record& record) const {
    const Kind& what = kind<Record>;
    const Names names = record.key.names();
    const Paths paths{home_};
    TRY(check(paths, what, names, false));
    const std::string path = paths.of(what, names);
    const auto made = write_new(home_, what, path, TRY(readable(to_json(record))));
    if (made || made.error().exit_code != ExitCode::refused) return made;
    return tl::unexpected(exists_already(what, names.back(), path));
}

template <typename Record>
Result<Record> Store::get(const KeyOf<Record>& key) const {
    const Paths paths{home_};
    TRY(check(paths, kind<Record>, key.names(), true));
    return load_unchecked<Record>(paths, key);
}

template <typename Record>
Result<std::vector<Record>> Store::list(const ParentKeyOf<Record>& parent) const {
    const Paths paths{home_};
    TRY(check_parent(paths, kind<Record>, parent.names()));
    const auto entries = TRY(names_in(paths.all(kind<Record>, parent.names())));
    return load_named<Record>(paths, parent, names_of(kind<Record>, entries));
}

template <typename Record>
Result<void> Store::remove(const KeyOf<Record>& key) const {
    const Paths paths{home_};
    TRY(check(paths, kind<Record>, key.names(), true));
    return discard(home_, paths.of(kind<Record>, key.names()));
}

template <typename Record>
Result<Record> Store::update(const KeyOf<Record>& key,
                             const std::function<void(Record&)>& change) const {
    const Paths paths{home_};
    TRY(check(paths, kind<Record>, key.names(), true));
    const base::FileDescriptor lock = TRY(lock_updates(home_));
    Record record = TRY(load_unchecked<Record>(paths, key));
    change(record);
    record.key = key;
    const std::string text = TRY(readable(to_json(record)));
    TRY(base::write_atomically(paths.record(kind<Record>, key.names()), text, 0600));
    return record;
}

#define BATCHAI_STORE_WITHOUT_CREATE(Record)                                            \
    template Result<Record> Store::get(const KeyOf<Record>&) const;                     \
    template Result<std::vector<Record>> Store::list(const ParentKeyOf<Record>&) const; \
    template Result<void> Store::remove<Record>(const KeyOf<Record>&) const;            \
    template Result<Record> Store::update(const KeyOf<Record>&,                         \
                                          const std::function<void(Record&)>&) const;
#define BATCHAI_STORE(Record)                                 \
    template Result<void> Store::create(const Record&) const; \
    BATCHAI_STORE_WITHOUT_CREATE(Record)
BATCHAI_STORE(Group)
BATCHAI_STORE(Workspace)
BATCHAI_STORE(Experiment)
BATCHAI_STORE(Cluster)
BATCHAI_STORE(StorageAccount)
BATCHAI_STORE(FileServer)
BATCHAI_STORE_WITHOUT_CREATE(Job)
#undef BATCHAI_STORE
#undef BATCHAI_STORE_WITHOUT_CREATE

Result<bool> Store::has_job(const JobKey& key) const {
    const Paths paths{home_};
    TRY(check(paths, kind<Job>, key.names(), false));
    std::error_code code;
    const std::string record = paths.record(kind<Job>, key.names());
    const bool exists = fs::exists(record, code);
    if (code) return base::system_error("look for", record, code.value());
    return exists;
}

Result<std::vector<std::string>> Store::job_names(const ExperimentKey& key) const {
    const Paths paths{home_};
    TRY(check_parent(paths, kind<Job>, key.names()));
    return names_of(kind<Job>, TRY(names_in(paths.all(kind<Job>, key.names()))));
}

Result<std::vector<Job>> Store::jobs(const ExperimentKey& key,
                                     const std::vector<std::string>& names,
                                     std::vector<base::Error>* unreadable) const {
    return load_named<Job>(Paths{home_}, key, names, unreadable);
}

Result<std::vector<Job>> Store::jobs_of_workspace(const WorkspaceKey& key) const {
    const auto all = TRY(list<Experiment>(key));
    std::vector<Job> found;
    for (const Experiment& one : all) {
        auto inside = list<Job>(one.key);
        if (!inside && inside.error().exit_code == ExitCode::not_found) continue;
        if (!inside) return inside;
        found.insert(found.end(), inside->begin(), inside->end());
    }
    return found;
}

Result<bool> Store::free_name(const JobKey& key, const EndLeftover& end_leftover) const {
    TRY(check(Paths{home_}, kind<Job>, key.names(), false));
    return reclaim(home_, job_files(key).directory(), end_leftover);
}

std::vector<std::string> Store::abandoned_names(const ExperimentKey& key,
                                                const std::vector<std::string>& names) const {
    const fs::path jobs = Paths{home_}.all(kind<Job>, key.names());
    std::vector<std::string> found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found),
                 [&](const std::string& name) {
                     const auto state = unfinished(jobs / name);
                     return state && state->abandoned;
                 });
    return found;
}

Result<JobReservation> Store::reserve(const JobKey& key, const EndLeftover& end_leftover) const {
    TRY(check(Paths{home_}, kind<Job>, key.names(), false));
    const record::JobFiles files = job_files(key);
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
            return tl::unexpected(exists_already(kind<Job>, key.job, files.directory()));
        auto error = unfinished(files.directory()).value_or(Unfinished{}).error(key.job);
        error.where = files.directory().string();
        error.exit_code = ExitCode::refused;
        return tl::unexpected(std::move(error));
    }
    return JobReservation(files, key, token, home_);
}

record::JobFiles Store::job_files(const JobKey& key) const {
    return record::JobFiles(Paths{home_}.of(kind<Job>, key.names()));
}

}  // namespace batchai::store
