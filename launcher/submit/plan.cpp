// SPDX-License-Identifier: GPL-2.0-or-later
#include <filesystem>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "base/process.hpp"
#include "image/reference.hpp"
#include "plan/findings.hpp"
#include "plan/make.hpp"
#include "submit/environment.hpp"
#include "submit/image.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

plan::Inputs input_of(const Submission& submission) {
    plan::Inputs input;
    input.identity = submission.identity;
    if (submission.cluster) {
        input.cluster = submission.cluster->view;
        input.identity.cluster = input.cluster->name;
    }
    input.job_directory = submission.directory.string();
    input.user_id = getuid();
    if (const auto* entry = getpwuid(getuid())) {
        input.user_name = entry->pw_name;
        input.home = entry->pw_dir;
    }
    // Slurm gives the batch script the home directory of the password file, unless the user's
    // environment sets another.
    if (const auto home = base::variable("HOME"); home && home->starts_with('/'))
        input.home = *home;
    std::error_code code;
    const auto here = std::filesystem::current_path(code);
    input.working_directory = code ? "/" : here.string();
    input.file_directory = input.working_directory;
    if (submission.options.path != "-") {
        const auto file = std::filesystem::weakly_canonical(submission.options.path, code);
        if (!code) input.file_directory = file.parent_path().string();
    }
    input.storage_root = submission.store.storage_root().string();
    input.ignore_container = submission.options.ignore_container;
    input.login_environment = login_environment();
    input.slurm = submission.slurm_choices;
    if (submission.image) input.image = submission.image->frozen;
    input.task_prolog = submission.task_prolog;
    return input;
}

// What is shown as the digest of an image that was not asked for.
std::string shown_digest(const job::ContainerSettings& settings) {
    const auto reference = image::parse(settings.image, settings.server_url);
    const bool pinned = reference && !reference->digest.empty();
    return pinned ? reference->digest : "resolved at submission";
}

// Returns whether the contents of the job file caused the error, not the registry or the network.
bool is_fault_of_file(const base::Error& error) {
    return error.exit_code == base::ExitCode::not_found ||
           error.exit_code == base::ExitCode::refused;
}

// Turns the registry's error into a diagnostic at the position of the image or of its credentials.
std::vector<job::Diagnostic> image_fault(const Submission& submission, const base::Error& error) {
    const bool credentials = error.exit_code == base::ExitCode::refused &&
                             login_of(*submission.spec.container_settings).has_value();
    plan::Findings findings(submission.positions);
    findings.add(plan::Finding::bad_image,
                 fmt::format("/properties/containerSettings/imageSourceRegistry/{}",
                             credentials ? "credentials" : "image"),
                 fmt::format("{}: {}", error.where, error.what), error.hint);
    return findings.take();
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

base::Result<void> make_plan(Submission& submission) {
    plan::Made made =
        plan::make(submission.spec, submission.positions, submission.site, input_of(submission));
    append(submission.diagnostics, std::move(made.diagnostics));
    if (!made.plan) return {};
    if (const auto& error = submission.no_image) {
        if (submission.options.job_image || !is_fault_of_file(*error))
            return tl::unexpected(*error);
        append(submission.diagnostics, image_fault(submission, *error));
        return {};
    }
    if (submission.image)
        append(made.plan->notices, submission.image->notices);
    else if (made.plan->container)
        made.plan->container->digest = shown_digest(*submission.spec.container_settings);
    submission.plan = std::move(made.plan);
    submission.mount_secrets = std::move(made.mount_secrets);
    submission.sweep = std::move(made.sweep);
    return {};
}

}  // namespace batchai::submit
