// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <filesystem>
#include <string>

#include "store/records.hpp"

// Where each resource lies. The names are checked by the caller (names.hpp).
namespace batchai::store {

struct Paths {
    std::filesystem::path home;

    [[nodiscard]] std::filesystem::path groups() const { return home / "groups"; }
    [[nodiscard]] std::filesystem::path of(const std::string& group) const {
        return groups() / group;
    }
    [[nodiscard]] std::filesystem::path workspaces(const std::string& group) const {
        return of(group) / "workspaces";
    }
    [[nodiscard]] std::filesystem::path of(const WorkspaceKey& key) const {
        return workspaces(key.group) / key.workspace;
    }
    [[nodiscard]] std::filesystem::path clusters(const WorkspaceKey& key) const {
        return of(key) / "clusters";
    }
    [[nodiscard]] std::filesystem::path of(const ClusterKey& key) const {
        return clusters(key.parent()) / (key.cluster + ".json");
    }
    [[nodiscard]] std::filesystem::path experiments(const WorkspaceKey& key) const {
        return of(key) / "experiments";
    }
    [[nodiscard]] std::filesystem::path of(const ExperimentKey& key) const {
        return experiments(key.parent()) / key.experiment;
    }
    [[nodiscard]] std::filesystem::path jobs(const ExperimentKey& key) const {
        return of(key) / "jobs";
    }
    [[nodiscard]] std::filesystem::path of(const JobKey& key) const {
        return jobs(key.parent()) / key.job;
    }

    [[nodiscard]] std::filesystem::path record(const std::string& group) const {
        return of(group) / "group.json";
    }
    [[nodiscard]] std::filesystem::path record(const WorkspaceKey& key) const {
        return of(key) / "workspace.json";
    }
    [[nodiscard]] std::filesystem::path record(const ExperimentKey& key) const {
        return of(key) / "experiment.json";
    }
    [[nodiscard]] std::filesystem::path record(const ClusterKey& key) const { return of(key); }
    [[nodiscard]] std::filesystem::path record(const JobKey& key) const {
        return of(key) / "job.json";
    }
};

}  // namespace batchai::store
