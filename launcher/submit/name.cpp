// SPDX-License-Identifier: GPL-2.0-or-later
#include <cctype>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "base/ids.hpp"
#include "store/records.hpp"
#include "submit/hand_over.hpp"
#include "submit/job_file.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

constexpr const char* no_uuid = "00000000-0000-0000-0000-000000000000";

base::Result<void> check_names(const Submission& submission) {
    const plan::Identity& identity = submission.identity;
    for (const auto& [kind, name] :
         {std::pair(&store::kind<store::Group>, identity.resource_group),
          std::pair(&store::kind<store::Workspace>, identity.workspace),
          std::pair(&store::kind<store::Experiment>, identity.experiment),
          std::pair(&store::kind<store::Job>, identity.job)}) {
        TRY(store::check_name(*kind, name));
    }
    return {};
}

// Chooses a name that is free.
base::Result<void> choose_name(Submission& submission) {
    const std::string stem = submission.identity.job;
    // Names that are wrong, and parents that there are not, are refused later.
    const auto is_taken = [&]() -> base::Result<bool> {
        auto taken = submission.store.has_job(submission.key());
        if (!taken && taken.error().exit_code != base::ExitCode::failed) return false;
        return taken;
    };
    // A second run of the same file works.
    for (int number = 2; !submission.name && TRY(is_taken()); ++number)
        submission.identity.job = fmt::format("{}-{}", stem, number);
    TRY(check_names(submission));
    if (!TRY(is_taken())) return {};
    return base::fail(
        "A job with given name, experiment, workspace and resource group already exists.", "",
        fmt::format("`batchai job show --name {}` says how far it is; choose another name, or "
                    "delete it first",
                    submission.identity.job),
        base::ExitCode::refused);
}

}  // namespace

base::Result<void> name_job(Submission& submission) {
    const auto parent = user::experiment_key(submission.parents);
    const bool is_kept = submission.goal >= Goal::frozen;
    submission.identity = {
        .subscription = submission.site.subscription,
        .resource_group = parent.group,
        .workspace = parent.workspace,
        .experiment = parent.experiment,
        .job = submission.name.value_or(job_name_from_file(submission.options.path)),
        .cluster = {},
        .uuid = is_kept ? base::random_uuid() : no_uuid};
    if (submission.goal == Goal::shown) TRY(check_names(submission));
    if (submission.goal == Goal::submitted) TRY(choose_name(submission));
    const bool in_store = !is_kept || submission.goal == Goal::submitted;
    submission.directory = in_store
                               ? submission.store.job_files(submission.key()).directory()
                               : handed_over_directory(submission.store, submission.identity.uuid);
    return {};
}

}  // namespace batchai::submit
