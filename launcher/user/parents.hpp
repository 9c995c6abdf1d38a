// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "site/site.hpp"
#include "store/store.hpp"

namespace batchai::user {

// The values of -g, -w and -e, if given.
struct ParentOptions {
    std::optional<std::string> group;
    std::optional<std::string> workspace;
    std::optional<std::string> experiment;
};

// The values of the options that name one job.
struct JobName {
    std::string job;
    ParentOptions parents;
};

// The name of a parent. `fallback` means that the user named none: the name is "default", and the
// parent is created when the first cluster or job needs it.
struct ParentName {
    std::string value;
    bool fallback = false;
    std::string origin = {};  // for messages: "$BATCHAI_DEFAULTS_GROUP", "config.toml", …
};

// Returns the option's value, else $BATCHAI_DEFAULTS_GROUP, else $AZURE_DEFAULTS_GROUP, else that
// of the user's config.toml, else "default". The other two functions use WORKSPACE and EXPERIMENT
// in place of GROUP.
[[nodiscard]] ParentName group_name(const ParentOptions& options);
[[nodiscard]] ParentName workspace_name(const ParentOptions& options);
[[nodiscard]] ParentName experiment_name(const ParentOptions& options);

[[nodiscard]] store::WorkspaceKey workspace_key(const ParentOptions& options);
[[nodiscard]] store::ExperimentKey experiment_key(const ParentOptions& options);
[[nodiscard]] store::JobKey job_key(const JobName& name);

// These functions create the parents that have the fallback name, if they do not exist. Parents
// that the user named must exist.
[[nodiscard]] base::Result<void> ensure_group(const store::Store& store, const site::Site& site,
                                              const ParentOptions& options);
[[nodiscard]] base::Result<void> ensure_workspace(const store::Store& store, const site::Site& site,
                                                  const ParentOptions& options);
[[nodiscard]] base::Result<void> ensure_experiment(const store::Store& store,
                                                   const site::Site& site,
                                                   const ParentOptions& options);

// Returns whether this "not found" error only means that the default parents have not been created
// yet. In that case a list is empty.
[[nodiscard]] bool nothing_yet(const base::Error& error, const ParentOptions& options);

// Returns the name of the user who runs this program; the id if the name is not known.
[[nodiscard]] std::string current_user();

}  // namespace batchai::user
