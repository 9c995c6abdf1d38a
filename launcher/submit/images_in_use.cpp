// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/images_in_use.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/file.hpp"
#include "base/json.hpp"
#include "cli/output/terminal.hpp"
#include "record/attempt.hpp"
#include "record/job_files.hpp"
#include "status/job_view.hpp"
#include "submit/hand_over.hpp"

namespace batchai::submit {

namespace {

using Digests = std::set<std::string>;

base::Result<void> add_image_of(const record::JobFiles& files, Digests& digests) {
    const auto text = base::read_file(files.plan());
    // The job was deleted in the meantime, or is just being submitted and has no plan yet.
    if (!text && text.error().exit_code == base::ExitCode::not_found) return {};
    if (!text) return tl::unexpected(text.error());
    // Nothing else of it matters, so that it may be of any version of batchai.
    const base::Value plan = TRY(base::parse_json(*text, files.plan().string()));
    if (!plan["schema"].is_string())
        return base::fail("the job's plan is damaged", files.plan().string());
    const auto* const digest = plan["container"]["digest"].string();
    if (digest != nullptr && !digest->empty()) digests.insert(*digest);
    return {};
}

// What was removed since its parent was looked at has nothing in it.
template <typename Item>
base::Result<std::vector<Item>> if_there(base::Result<std::vector<Item>> items) {
    if (!items && items.error().exit_code == base::ExitCode::not_found) return std::vector<Item>();
    return items;
}

// Returns the jobs of the experiment. The image of a job without a record that can be read is
// added, because nothing says that it has ended: it may be one that is just being submitted, or one
// of a later version.
base::Result<std::vector<store::Job>> jobs_in(const store::Store& store,
                                              const store::ExperimentKey& key, Digests& digests) {
    const std::vector<std::string> names = TRY(if_there(store.job_names(key)));
    std::vector<base::Error> unreadable;
    auto jobs = TRY(store.jobs(key, names, &unreadable));
    std::set<std::string> others(names.begin(), names.end());
    for (const store::Job& job : jobs)
        others.erase(job.key.job);
    for (const std::string& name : store.abandoned_names(key, {others.begin(), others.end()}))
        others.erase(name);
    for (const std::string& name : others)
        TRY(add_image_of(store.job_files({key.group, key.workspace, key.experiment, name}),
                         digests));
    return jobs;
}

base::Result<std::vector<store::Job>> all_jobs(const store::Store& store, Digests& digests) {
    std::vector<store::Job> found;
    for (const auto& group : TRY(store.list<store::Group>({}))) {
        for (const auto& workspace : TRY(if_there(store.list<store::Workspace>(group.key)))) {
            for (const auto& experiment :
                 TRY(if_there(store.list<store::Experiment>(workspace.key)))) {
                auto jobs = TRY(jobs_in(store, experiment.key, digests));
                std::move(jobs.begin(), jobs.end(), std::back_inserter(found));
            }
        }
    }
    return found;
}

// Returns whether the job has ended, if there is only its record to tell.
bool has_ended(const store::Store& store, const store::Job& job) {
    // Each task has its own.
    if (job.is_array) return false;
    const auto attempt = record::latest_attempt(store.job_files(job.key));
    return attempt && *attempt && (*attempt)->end && !(*attempt)->runs_again();
}

}  // namespace

base::Result<Digests> images_in_use(const store::Store& store, const slurm::Client& slurm) {
    Digests digests;
    for (const auto& directory : TRY(needed_hand_overs(store)))
        TRY(add_image_of(record::JobFiles(directory), digests));
    const std::vector<store::Job> jobs = TRY(all_jobs(store, digests));
    const auto views = status::view_jobs(store, slurm, jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        const bool ended = views ? (*views)[i].ended() : has_ended(store, jobs[i]);
        if (!ended) TRY(add_image_of(store.job_files(jobs[i].key), digests));
    }
    return digests;
}

base::Result<Digests> warned_if_unknown(base::Result<Digests> in_use) {
    if (!in_use)
        cli::warn(
            "no image is removed to keep the cache within its limit, because it is not known which "
            "ones jobs use: " +
            in_use.error().text());
    return in_use;
}

}  // namespace batchai::submit
