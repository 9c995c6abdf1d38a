// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

namespace batchai::cli {

// What -g, -w and -e said; none: not given.
struct ParentOptions {
    std::optional<std::string> group;
    std::optional<std::string> workspace;
    std::optional<std::string> experiment;
};

// A parent's name. `fallback`: nobody named it, it is the name "default", which is made when the
// first cluster or job needs it.
struct ParentName {
    std::string value;
    bool fallback = false;
};

// The option, else $BATCHAI_DEFAULTS_GROUP, else $AZURE_DEFAULTS_GROUP (WORKSPACE, EXPERIMENT
// alike), else "default".
[[nodiscard]] ParentName group_name(const ParentOptions& options);
[[nodiscard]] ParentName workspace_name(const ParentOptions& options);
[[nodiscard]] ParentName experiment_name(const ParentOptions& options);

[[nodiscard]] store::WorkspaceKey workspace_key(const ParentOptions& options);
[[nodiscard]] store::ExperimentKey experiment_key(const ParentOptions& options);

// Makes the parents that nobody named; those with a name of their own must exist.
[[nodiscard]] base::Result<void> ensure_workspace(const store::Store& store, const site::Site& site,
                                                  const ParentOptions& options);
[[nodiscard]] base::Result<void> ensure_experiment(const store::Store& store,
                                                   const site::Site& site,
                                                   const ParentOptions& options);

// Whether this "not found" only means that no default parent was made yet: then a list is empty.
[[nodiscard]] bool nothing_yet(const base::Error& error, const ParentOptions& options);

// The last component of an ARM id, or the name itself.
[[nodiscard]] std::string name_of_id(const std::string& name_or_id);

}  // namespace batchai::cli
