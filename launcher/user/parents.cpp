// SPDX-License-Identifier: GPL-2.0-or-later
#include "user/parents.hpp"

#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/process.hpp"
#include "base/timestamp.hpp"
#include "user/config.hpp"

namespace batchai::user {
namespace {

ParentName resolve(const ParentOptions& options, std::optional<std::string> ParentOptions::*member,
                   const char* own, const char* azure) {
    if (options.*member) return {*(options.*member), false, "the command line"};
    for (const auto* name : {own, azure}) {
        if (auto value = base::variable(name))
            return {std::move(*value), false, fmt::format("${}", name)};
    }
    // cli::open_context() reports the error of a file that cannot be used.
    const auto& config = user_config();
    if (config && config->defaults.*member)
        return {*(config->defaults.*member), false, "config.toml"};
    return {"default", true, "batchai"};
}

// Two commands may create the same default parent at once. The one that finds it there has not
// failed.
base::Result<void> unless_there(const base::Result<void>& made) {
    if (made || made.error().exit_code == base::ExitCode::refused) return {};
    return tl::unexpected(made.error());
}

}  // namespace

ParentName group_name(const ParentOptions& options) {
    return resolve(options, &ParentOptions::group, "BATCHAI_DEFAULTS_GROUP",
                   "AZURE_DEFAULTS_GROUP");
}

ParentName workspace_name(const ParentOptions& options) {
    return resolve(options, &ParentOptions::workspace, "BATCHAI_DEFAULTS_WORKSPACE",
                   "AZURE_DEFAULTS_WORKSPACE");
}

ParentName experiment_name(const ParentOptions& options) {
    return resolve(options, &ParentOptions::experiment, "BATCHAI_DEFAULTS_EXPERIMENT",
                   "AZURE_DEFAULTS_EXPERIMENT");
}

store::WorkspaceKey workspace_key(const ParentOptions& options) {
    return {group_name(options).value, workspace_name(options).value};
}

store::ExperimentKey experiment_key(const ParentOptions& options) {
    return {group_name(options).value, workspace_name(options).value,
            experiment_name(options).value};
}

store::JobKey job_key(const JobName& name) {
    auto parent = experiment_key(name.parents);
    return {std::move(parent.group), std::move(parent.workspace), std::move(parent.experiment),
            name.job};
}

base::Result<void> ensure_group(const store::Store& store, const site::Site& site,
                                const ParentOptions& options) {
    const auto group = group_name(options);
    if (!group.fallback || store.get<store::Group>({group.value})) return {};
    return unless_there(store.create(store::Group{{group.value}, site.location, {}, base::now()}));
}

base::Result<void> ensure_workspace(const store::Store& store, const site::Site& site,
                                    const ParentOptions& options) {
    TRY(ensure_group(store, site, options));
    const auto key = workspace_key(options);
    const auto found = store.get<store::Workspace>(key);
    if (found) return {};
    if (!workspace_name(options).fallback || found.error().exit_code != base::ExitCode::not_found) {
        return tl::unexpected(found.error());
    }
    return unless_there(store.create(store::Workspace{key, site.location, {}, base::now()}));
}

base::Result<void> ensure_experiment(const store::Store& store, const site::Site& site,
                                     const ParentOptions& options) {
    TRY(ensure_workspace(store, site, options));
    const auto key = experiment_key(options);
    const auto found = store.get<store::Experiment>(key);
    if (found) return {};
    if (!experiment_name(options).fallback ||
        found.error().exit_code != base::ExitCode::not_found) {
        return tl::unexpected(found.error());
    }
    return unless_there(store.create(store::Experiment{key, base::now()}));
}

bool nothing_yet(const base::Error& error, const ParentOptions& options) {
    return error.exit_code == base::ExitCode::not_found && group_name(options).fallback &&
           workspace_name(options).fallback && experiment_name(options).fallback;
}

std::string current_user() {
    const auto* entry = getpwuid(getuid());
    return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

}  // namespace batchai::user
