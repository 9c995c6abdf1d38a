// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <functional>
#include <utility>

#include "base/file.hpp"
#include "base/json.hpp"
#include "image/credentials.hpp"
#include "image/reference.hpp"
#include "plan/make.hpp"
#include "record/job_files.hpp"
#include "snapshot/copy.hpp"
#include "status/sweep/view.hpp"
#include "submit/environment.hpp"
#include "submit/hand_over.hpp"
#include "submit/held_job.hpp"
#include "submit/image.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

// Writes what "secrets.json" has: the secrets of the job's environment and those of its mounts.
base::Result<void> write_secrets(const Submission& submission, const record::JobFiles& files) {
    base::Value::Object secrets;
    for (const auto& secret : submission.spec.secrets) {
        if (secret.value) secrets.emplace_back(secret.name, *secret.value);
    }
    for (const auto& [name, value] : submission.mount_secrets)
        secrets.emplace_back(name, value);
    if (secrets.empty()) return {};
    return base::write_atomically(files.secrets(), base::format_json(secrets), 0600);
}

// Writes the credentials that the job file has for the registry of its image.
base::Result<void> write_login(const Submission& submission) {
    const auto& settings = submission.spec.container_settings;
    if (!settings || !submission.plan->container) return {};
    const auto login = login_of(*settings);
    const auto reference = image::parse(settings->image, settings->server_url);
    if (!login || !reference) return {};
    return base::write_atomically(image::auth_file_of_job(submission.directory.string()),
                                  image::auth_file_text(reference->registry, *login), 0600);
}

// Writes plan.json into the job's directory, and if the job has them, sweep.json, secrets.json, the
// credentials of its registry, and its snapshot. All files but those of the snapshot have mode
// 0600. Calls `tick` now and then; if it fails, so does this function.
base::Result<void> write_files(const Submission& submission,
                               const std::function<base::Result<void>()>& tick) {
    const record::JobFiles files(submission.directory);
    if (submission.snapshot)
        TRY(snapshot::copy(*submission.plan->snapshot, *submission.snapshot, files, tick));
    TRY(base::write_atomically(files.plan(), submission.json, 0600));
    if (submission.sweep) TRY(base::write_atomically(files.sweep(), submission.sweep_json, 0600));
    TRY(write_secrets(submission, files));
    return write_login(submission);
}

// The directory of a plan that is handed over.
base::Result<void> make_directory(const Submission& submission) {
    prune_handed_over(submission.store);
    const record::JobFiles files(submission.directory);
    for (const auto& path : {submission.directory, files.attempts(), files.shared()})
        TRY(base::make_directories(path, 0700));
    auto written = write_files(submission, {});
    if (!written) static_cast<void>(base::remove_tree(submission.directory));
    return written;
}

// The directory of a job in the store.
base::Result<void> reserve_name(Submission& submission) {
    const auto end_leftover = [&](const record::JobFiles& left) {
        return end_unrecorded_job(submission.slurm, left);
    };
    submission.held.emplace(signals_held_for_submission);
    submission.reservation.emplace(TRY(submission.store.reserve(submission.key(), end_leftover)));
    const auto go_on = [&]() -> base::Result<void> {
        if (submission.held->next()) return base::fail("interrupted before the job was submitted");
        return submission.reservation->refresh();
    };
    TRY(write_files(submission, go_on));
    TRY(base::write_atomically(
        submission.reservation->files().batch_script(),
        plan::batch_script(*submission.plan, launcher_path(), submission.digest), 0700));
    return go_on();
}

}  // namespace

base::Result<void> reserve(Submission& submission) {
    if (submission.goal != Goal::submitted) return make_directory(submission);
    if (submission.sweep) TRY(status::check_array_size(submission.slurm, *submission.sweep));
    TRY(user::ensure_experiment(submission.store, submission.site, submission.parents));
    return reserve_name(submission);
}

}  // namespace batchai::submit
