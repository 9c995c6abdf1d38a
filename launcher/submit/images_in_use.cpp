// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/images_in_use.hpp"

#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "plan/plan_file.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "submit/hand_over.hpp"

namespace batchai::submit {

namespace {

namespace fs = std::filesystem;

void add_image_of(const fs::path& plan_file, std::set<std::string>& digests) {
    const auto text = base::read_file(plan_file);
    if (!text) return;
    const auto plan = plan::plan_from_json(*text);
    if (plan && plan->container && !plan->container->digest.empty())
        digests.insert(plan->container->digest);
}

bool has_ended(const fs::path& job_directory) {
    const auto attempt = record::latest_attempt(record::JobFiles(job_directory));
    return attempt && *attempt && (*attempt)->end && !(*attempt)->runs_again();
}

// Returns the directories of the jobs that have no recorded end, by Slurm job id.
std::map<std::string, fs::path> open_jobs(const store::Store& store) {
    std::map<std::string, fs::path> out;
    const auto groups = store.list<store::Group>({});
    if (!groups) return out;
    for (const auto& group : *groups) {
        const auto workspaces = store.list<store::Workspace>(group.key);
        if (!workspaces) continue;
        for (const auto& workspace : *workspaces) {
            const auto jobs = store.jobs_of_workspace(workspace.key);
            if (!jobs) continue;
            for (const auto& job : *jobs) {
                fs::path directory = store.job_files(job.key).directory();
                if (!has_ended(directory)) out[job.slurm_job_id] = std::move(directory);
            }
        }
    }
    return out;
}

}  // namespace

std::set<std::string> images_in_use(const store::Store& store, const slurm::Client& slurm) {
    std::set<std::string> digests;
    for (const fs::path& directory : needed_hand_overs(store))
        add_image_of(record::JobFiles(directory).plan(), digests);
    const auto jobs = open_jobs(store);
    if (jobs.empty()) return digests;
    std::vector<std::string> ids;
    ids.reserve(jobs.size());
    for (const auto& [id, directory] : jobs)
        ids.push_back(id);
    const auto statuses = slurm.jobs(ids);
    for (const auto& [id, directory] : jobs) {
        if (statuses) {
            const auto found = statuses->find(id);
            if (found == statuses->end() || slurm::is_final(found->second.state)) continue;
        }
        add_image_of(record::JobFiles(directory).plan(), digests);
    }
    return digests;
}

}  // namespace batchai::submit
