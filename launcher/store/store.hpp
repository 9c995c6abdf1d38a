// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "record/job_files.hpp"
#include "store/records.hpp"
#include "store/reservation.hpp"

// The resources of a user, as files. The other parts are:
//
//   records.hpp      the kinds of resources, and the contents of their records
//   directory.hpp    makes and removes directories in one step
//   reservation.hpp  the marker of a job that is about to be created
namespace batchai::store {

// Keeps the resources of one user as files below one directory:
//
//   groups/<group>/group.json
//   groups/<group>/workspaces/<workspace>/workspace.json
//   groups/<group>/storage-accounts/<account>.json
//   groups/<group>/workspaces/<workspace>/clusters/<cluster>.json
//   groups/<group>/workspaces/<workspace>/file-servers/<server>.json
//   groups/<group>/workspaces/<workspace>/experiments/<experiment>/experiment.json
//   groups/<group>/workspaces/<workspace>/experiments/<experiment>/jobs/<job>/   see job_files.hpp
//   storage/    the default storage that jobs write to; never touched by the store
//   .lock       is locked while a record is updated
//   .new/ .trash/   directories that are being made or removed; what a crash leaves in them is
//                   deleted after a day
//
// Reading creates nothing. The first write makes the root with mode 0700. Every file appears whole
// (base/file.hpp), and every directory appears with its record in it, by one rename. Removing a
// resource also removes everything below it: one rename to .trash, then deletion.
//
// Errors: not_found (says what exists or guesses what was meant; a missing parent is reported
// before the child), refused (it already exists or is being created), usage (bad name), failed (a
// damaged file, with its path and position, or an input/output error). Lists are sorted by name.
// One damaged file makes the whole list an error that names the file. Any number of processes may
// use one store. A Store has no state except its path, so threads may share it.
class Store {
  public:
    // `home` must be absolute.
    explicit Store(std::filesystem::path home) : home_(std::move(home)) {}
    // Opens $BATCHAI_HOME, which must be absolute, or else ".batchai" in the user's home directory.
    [[nodiscard]] static base::Result<Store> open_default();

    [[nodiscard]] const std::filesystem::path& home() const { return home_; }
    [[nodiscard]] std::filesystem::path storage_root() const { return home_ / "storage"; }

    // The five for each kind of resource; a job is created with reserve(). Each looks at the names
    // and at the parents first.
    template <typename Record>
    [[nodiscard]] base::Result<void> create(const Record& record) const;
    template <typename Record>
    [[nodiscard]] base::Result<Record> get(const KeyOf<Record>& key) const;
    template <typename Record>
    [[nodiscard]] base::Result<std::vector<Record>> list(const ParentKeyOf<Record>& parent) const;
    // Removes the record and everything below it. Outputs in the storage are kept.
    template <typename Record>
    [[nodiscard]] base::Result<void> remove(const KeyOf<Record>& key) const;
    // Reads, changes and replaces the record, and returns what was written. The key cannot change.
    // Concurrent updates happen one after the other (see lock_updates()), so `change` must be
    // quick.
    template <typename Record>
    [[nodiscard]] base::Result<Record> update(const KeyOf<Record>& key,
                                              const std::function<void(Record&)>& change) const;

    // Whether there is such a job, also one whose record cannot be read. Looks at nothing else,
    // however many jobs there are.
    [[nodiscard]] base::Result<bool> has_job(const JobKey& key) const;
    // job_names() returns the names of the experiment's job directories, which takes a fraction of
    // the time of a list. jobs() returns the jobs of such names, and leaves out a name that has no
    // record. A record that cannot be read is an error, or one of `unreadable` if that is given.
    [[nodiscard]] base::Result<std::vector<std::string>> job_names(const ExperimentKey& key) const;
    [[nodiscard]] base::Result<std::vector<Job>> jobs(
        const ExperimentKey& key, const std::vector<std::string>& names,
        std::vector<base::Error>* unreadable = nullptr) const;
    // Returns the jobs of all experiments of the workspace, by experiment and name. Used to find
    // running jobs before a parent is removed.
    [[nodiscard]] base::Result<std::vector<Job>> jobs_of_workspace(const WorkspaceKey& key) const;

    // Reserves the name and directory of a new job, whose experiment must exist. See
    // reservation.hpp.
    [[nodiscard]] base::Result<JobReservation> reserve(const JobKey& key,
                                                       const EndLeftover& end_leftover) const;
    // Frees a name whose reservation was abandoned. Returns whether it was one.
    [[nodiscard]] base::Result<bool> free_name(const JobKey& key,
                                               const EndLeftover& end_leftover) const;
    // Returns which of the names are reserved by processes that have ended.
    [[nodiscard]] std::vector<std::string> abandoned_names(
        const ExperimentKey& key, const std::vector<std::string>& names) const;
    // Returns the paths of the job's files, whether the job exists or not (for --dry-run). The
    // names must be valid.
    [[nodiscard]] record::JobFiles job_files(const JobKey& key) const;

  private:
    std::filesystem::path home_;
};

}  // namespace batchai::store
