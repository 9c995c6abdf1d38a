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

namespace batchai::store {

// The resources of one user as files below one directory:
//
//   groups/<group>/group.json
//   groups/<group>/workspaces/<workspace>/workspace.json
//   groups/<group>/workspaces/<workspace>/clusters/<cluster>.json
//   groups/<group>/workspaces/<workspace>/experiments/<experiment>/experiment.json
//   groups/<group>/workspaces/<workspace>/experiments/<experiment>/jobs/<job>/   see job_files.hpp
//   storage/    the default storage that jobs write to; never touched by the store
//   .new/ .trash/   directories on their way in and out; leftovers of a crash go after a day
//
// Reading makes nothing. The first write makes the root with mode 0700. Every file appears whole
// (base/file.hpp) and every directory appears with its record in it, by one rename. Removing a
// parent removes what is below it: one rename to .trash, then deletion.
//
// Errors: not_found (says what exists and guesses what was meant; a missing parent is named before
// the child), refused (exists already, or is being created), usage (bad name), failed (a damaged
// file, with path and place; input and output). Lists are sorted by name; one damaged file makes
// the whole list an error that names it. Any number of processes may work on one store; a Store
// holds no state but its path, so that threads may share it.
class Store {
  public:
    // `home` is absolute.
    explicit Store(std::filesystem::path home) : home_(std::move(home)) {}
    // $BATCHAI_HOME, which must be absolute, or ".batchai" in the user's home directory.
    [[nodiscard]] static base::Result<Store> open_default();

    [[nodiscard]] const std::filesystem::path& home() const { return home_; }
    [[nodiscard]] std::filesystem::path storage_root() const { return home_ / "storage"; }

    [[nodiscard]] base::Result<void> create(const Group& group) const;
    [[nodiscard]] base::Result<void> create(const Workspace& workspace) const;
    [[nodiscard]] base::Result<void> create(const Experiment& experiment) const;
    [[nodiscard]] base::Result<void> create(const Cluster& cluster) const;

    [[nodiscard]] base::Result<Group> group(const std::string& name) const;
    [[nodiscard]] base::Result<Workspace> workspace(const WorkspaceKey& key) const;
    [[nodiscard]] base::Result<Experiment> experiment(const ExperimentKey& key) const;
    [[nodiscard]] base::Result<Cluster> cluster(const ClusterKey& key) const;
    [[nodiscard]] base::Result<Job> job(const JobKey& key) const;

    [[nodiscard]] base::Result<std::vector<Group>> groups() const;
    [[nodiscard]] base::Result<std::vector<Workspace>> workspaces(const std::string& group) const;
    [[nodiscard]] base::Result<std::vector<Experiment>> experiments(const WorkspaceKey& key) const;
    [[nodiscard]] base::Result<std::vector<Cluster>> clusters(const WorkspaceKey& key) const;
    [[nodiscard]] base::Result<std::vector<Job>> jobs(const ExperimentKey& key) const;
    // Of all experiments of the workspace, by experiment and name: for a cluster's node states, and
    // to find running jobs before a parent is removed.
    [[nodiscard]] base::Result<std::vector<Job>> jobs_of_workspace(const WorkspaceKey& key) const;

    [[nodiscard]] base::Result<void> remove_group(const std::string& name) const;
    [[nodiscard]] base::Result<void> remove(const WorkspaceKey& key) const;
    [[nodiscard]] base::Result<void> remove(const ExperimentKey& key) const;
    [[nodiscard]] base::Result<void> remove(const ClusterKey& key) const;
    // The record and the job's directory; outputs in the storage stay.
    [[nodiscard]] base::Result<void> remove(const JobKey& key) const;

    // Reads, changes and replaces the record, and returns what was written. The key cannot change.
    // Of two updates at once, the later write wins.
    [[nodiscard]] base::Result<Cluster> update(const ClusterKey& key,
                                               const std::function<void(Cluster&)>& change) const;
    [[nodiscard]] base::Result<Job> update(const JobKey& key,
                                           const std::function<void(Job&)>& change) const;

    // Takes the name and directory of a new job; the experiment must exist. See reservation.hpp.
    [[nodiscard]] base::Result<JobReservation> reserve(const JobKey& key) const;
    // Where the job's files lie, whether it exists or not: for --dry-run. The names must be valid.
    [[nodiscard]] record::JobFiles job_files(const JobKey& key) const;

  private:
    std::filesystem::path home_;
};

}  // namespace batchai::store
