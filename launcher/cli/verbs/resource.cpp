// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/verbs/resource.hpp"

#include <fmt/format.h>

#include "cli/report/job_watch.hpp"
#include "cli/report/resource_report.hpp"
#include "cli/terminal.hpp"
#include "cli/verbs/surroundings.hpp"

namespace batchai::cli {
namespace {

using Jobs = base::Result<std::vector<store::Job>>;

std::optional<store::Tags> tags_of(const std::vector<std::string>& words) {
    if (words.empty()) return {};
    store::Tags tags;
    for (const auto& word : words) {
        const auto equals = word.find('=');
        tags[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
    }
    return tags;
}

store::WorkspaceKey own_workspace(const ResourceOptions& options) {
    return {group_name(options.parents).value, options.name};
}

store::ExperimentKey own_experiment(const ResourceOptions& options) {
    return {group_name(options.parents).value, workspace_name(options.parents).value, options.name};
}

template <typename Items>
Value list_value(const Items& items, const std::string& subscription) {
    Value::Array values;
    for (const auto& item : items)
        values.push_back(to_value(item, subscription));
    return values;
}

// `jobs` and `remove` are asked only after the user said yes.
template <typename JobsOf, typename Remove>
Answer remove_with_jobs(const ResourceOptions& options, const JobsOf& jobs_of,
                        const Remove& remove) {
    auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const Jobs jobs = jobs_of(here->store);
    if (!jobs) return tl::unexpected(jobs.error());
    const auto agreed = confirm(options.yes);
    if (!agreed) return tl::unexpected(agreed.error());
    if (!*agreed) return base::fail("operation cancelled");
    const auto stopped = stop_jobs(here->store, here->slurm, *jobs, !options.no_wait);
    if (!stopped) return tl::unexpected(stopped.error());
    const auto removed = remove(here->store);
    if (!removed) return tl::unexpected(removed.error());
    return Outcome{};
}

Jobs jobs_of_group(const store::Store& store, const std::string& group) {
    if (const auto found = store.group(group); !found) return tl::unexpected(found.error());
    const auto workspaces = store.workspaces(group);
    if (!workspaces) return tl::unexpected(workspaces.error());
    std::vector<store::Job> all;
    for (const auto& workspace : *workspaces) {
        auto jobs = store.jobs_of_workspace(workspace.key);
        if (!jobs) return jobs;
        all.insert(all.end(), jobs->begin(), jobs->end());
    }
    return all;
}

Jobs jobs_of_workspace(const store::Store& store, const store::WorkspaceKey& key) {
    if (const auto found = store.workspace(key); !found) return tl::unexpected(found.error());
    return store.jobs_of_workspace(key);
}

Jobs jobs_of_experiment(const store::Store& store, const store::ExperimentKey& key) {
    if (const auto found = store.experiment(key); !found) return tl::unexpected(found.error());
    return store.jobs(key);
}

template <typename Found>
Answer shown(const Found& found, const Surroundings& here, Columns columns) {
    if (!found) return tl::unexpected(found.error());
    return Outcome{to_value(*found, here.site.subscription), std::move(columns)};
}

template <typename Found>
Answer listed(const Found& found, const Surroundings& here, Columns columns) {
    if (!found) return tl::unexpected(found.error());
    return Outcome{list_value(*found, here.site.subscription), std::move(columns)};
}

}  // namespace

Answer group_create(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const store::Group group{options.name, options.location.value_or(here->site.location),
                             tags_of(options.tags), base::now()};
    // `az group create` of a group that is there already answers with the group.
    const auto made = here->store.create(group);
    if (!made && made.error().exit_code != base::ExitCode::refused) {
        return tl::unexpected(made.error());
    }
    return shown(here->store.group(options.name), *here, {});
}

Answer group_show(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    return shown(here->store.group(options.name), *here, {});
}

Answer group_list(const ResourceOptions& /*options*/) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    return listed(here->store.groups(), *here, {});
}

Answer group_delete(const ResourceOptions& options) {
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_group(store, options.name); },
        [&](const store::Store& store) { return store.remove_group(options.name); });
}

Answer workspace_create(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    auto location = here->site.location;
    if (const auto group = here->store.group(group_name(options.parents).value)) {
        location = group->location;
    }
    const store::Workspace workspace{own_workspace(options), options.location.value_or(location),
                                     tags_of(options.tags), base::now()};
    const auto made = here->store.create(workspace);
    if (!made) return tl::unexpected(made.error());
    return Outcome{to_value(workspace, here->site.subscription), {}};
}

Answer workspace_show(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    return shown(here->store.workspace(own_workspace(options)), *here, workspace_columns);
}

Answer workspace_list(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto group = group_name(options.parents);
    if (!group.fallback)
        return listed(here->store.workspaces(group.value), *here, workspace_columns);
    const auto groups = here->store.groups();
    if (!groups) return tl::unexpected(groups.error());
    Value::Array all;
    for (const auto& each : *groups) {
        const auto workspaces = here->store.workspaces(each.name);
        if (!workspaces) return tl::unexpected(workspaces.error());
        for (const auto& workspace : *workspaces)
            all.push_back(to_value(workspace, here->site.subscription));
    }
    return Outcome{std::move(all), workspace_columns};
}

Answer workspace_delete(const ResourceOptions& options) {
    const auto key = own_workspace(options);
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_workspace(store, key); },
        [&](const store::Store& store) { return store.remove(key); });
}

Answer experiment_create(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const store::Experiment experiment{own_experiment(options), base::now()};
    const auto made = here->store.create(experiment);
    if (!made) return tl::unexpected(made.error());
    return Outcome{to_value(experiment, here->site.subscription), {}};
}

Answer experiment_show(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    return shown(here->store.experiment(own_experiment(options)), *here, experiment_columns);
}

Answer experiment_list(const ResourceOptions& options) {
    const auto here = open_surroundings();
    if (!here) return tl::unexpected(here.error());
    const auto experiments = here->store.experiments(workspace_key(options.parents));
    if (!experiments && nothing_yet(experiments.error(), options.parents)) {
        return Outcome{Value::Array{}, experiment_columns};
    }
    return listed(experiments, *here, experiment_columns);
}

Answer experiment_delete(const ResourceOptions& options) {
    const auto key = own_experiment(options);
    return remove_with_jobs(
        options, [&](const store::Store& store) { return jobs_of_experiment(store, key); },
        [&](const store::Store& store) { return store.remove(key); });
}

}  // namespace batchai::cli
