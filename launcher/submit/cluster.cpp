// SPDX-License-Identifier: GPL-2.0-or-later
#include <fmt/format.h>

#include "clusters/view.hpp"
#include "status/resource_view.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

base::Result<void> find_cluster(Submission& submission) {
    const auto& given = submission.cluster_name;
    const auto& name_or_id = given ? given : submission.spec.cluster_id;
    if (!name_or_id) return {};
    const store::WorkspaceKey own{submission.identity.resource_group,
                                  submission.identity.workspace};
    auto key = status::cluster_key(*name_or_id, own);
    if (!key) {
        key.error().where = given ? "--cluster" : "cluster.id";
        if (!given) key.error().exit_code = base::ExitCode::bad_job_file;
        return tl::unexpected(std::move(key).error());
    }
    ChosenCluster& chosen = submission.cluster.emplace(
        ChosenCluster{.key = *key,
                      .view = {.name = key->cluster, .vm_size = {}, .node_limit = {}},
                      .notices = {}});
    const auto cluster = submission.store.get<store::Cluster>(*key);
    if (!cluster) {
        const auto& error = cluster.error();
        if (error.exit_code != base::ExitCode::not_found) return tl::unexpected(error);
        const auto missing =
            fmt::format("The specified cluster {} is not found in the workspace {} of the group {}",
                        key->cluster, key->workspace, key->group);
        if (submission.goal >= Goal::frozen || submission.slurm_is_asked)
            return base::fail(missing, "", error.text(), base::ExitCode::not_found);
        chosen.notices.push_back(
            fmt::format("{}, so nothing of it is checked: {}", missing, error.what));
        return {};
    }
    chosen.view.vm_size = cluster->vm_size;
    chosen.view.mount_volumes = TRY(clusters::cluster_volumes(*cluster, submission.account));
    chosen.view.setup_task = clusters::setup_task_of(*cluster);
    chosen.view.node_limit = clusters::node_limit(*cluster);
    if (key->parent() != own)
        chosen.notices.push_back(
            fmt::format("the cluster {} is that of the workspace {} in the group {}, as its id "
                        "says; the job is of the workspace {} in the group {}",
                        key->cluster, key->workspace, key->group, own.workspace, own.group));
    return {};
}

}  // namespace batchai::submit
