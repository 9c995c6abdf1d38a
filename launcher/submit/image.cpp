// SPDX-License-Identifier: GPL-2.0-or-later
#include "submit/image.hpp"

#include <csignal>
#include <filesystem>
#include <utility>

#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "base/process.hpp"
#include "image/reference.hpp"
#include "image/resolve.hpp"
#include "plan/make.hpp"
#include "submit/images_in_use.hpp"
#include "submit/steps.hpp"

namespace batchai::submit {

namespace {

std::string user_name() {
    const auto* entry = getpwuid(getuid());
    return entry == nullptr ? std::to_string(getuid()) : entry->pw_name;
}

}  // namespace

base::Result<void> apply_job_image(job::JobSpec& spec, const std::string& image) {
    const auto wanted = image::parse(image);
    if (!wanted)
        return base::fail(wanted.error().what, "--job-image", wanted.error().hint,
                          base::ExitCode::usage);
    if (!spec.container_settings) spec.container_settings.emplace();
    job::ContainerSettings& settings = *spec.container_settings;
    const auto before = image::parse(settings.image, settings.server_url);
    if (!before || before->registry != wanted->registry) settings.credentials.reset();
    settings.image = image;
    settings.server_url.reset();
    return {};
}

std::optional<image::Login> login_of(const job::ContainerSettings& settings) {
    if (!settings.credentials || !settings.credentials->password) return std::nullopt;
    return image::Login{settings.credentials->username, *settings.credentials->password};
}

image::Places image_places(const store::Store& store, const site::Site& site) {
    return image::places_of(site, store.home().string(), user_name());
}

namespace {

base::Result<image::Resolved> ask_for(const Submission& submission,
                                      const image::Reference& reference) {
    const job::ContainerSettings& settings = *submission.spec.container_settings;
    const auto access = TRY(image::access_for(reference, submission.site, login_of(settings)));
    return image::resolve(reference, settings.image,
                          image_places(submission.store, submission.site), access, {});
}

}  // namespace

base::Result<void> resolve_image(Submission& submission) {
    if (submission.options.ignore_container) return {};
    if (submission.options.job_image)
        TRY(apply_job_image(submission.spec, *submission.options.job_image));
    const auto& settings = submission.spec.container_settings;
    if (!settings || submission.goal == Goal::checked ||
        !plan::may_ask_for_image(*settings, submission.site))
        return {};
    const auto reference = image::parse(settings->image, settings->server_url);
    const bool needs_network = reference->kind == image::Kind::registry;
    if (submission.goal == Goal::shown && needs_network) return {};
    if (auto image = ask_for(submission, *reference))
        submission.image = std::move(*image);
    else
        submission.no_image = std::move(image).error();
    return {};
}

base::Result<image::Ensured> ensure_image(const store::Store& store, const slurm::Client& slurm,
                                          const image::FrozenImage& frozen,
                                          const image::Access& access) {
    // The signals that end a program are held, so that an interrupted import can remove what it has
    // written.
    const base::HeldSignals stop{SIGINT, SIGTERM, SIGHUP};
    bool stopped = false;
    image::ProgressPrinter printer;
    image::EnsureOptions options;
    options.limit = frozen.cache_limit;
    options.in_use = [&] { return warned_if_unknown(images_in_use(store, slurm)); };
    options.watch.interrupted = [&] { return stopped = stopped || stop.next(); };
    options.show = [&](const image::Progress& progress) { printer.show(progress); };
    // The default image directory is inside the user's record directory, which may not exist yet.
    TRY(base::make_directories(store.home(), 0700));
    return image::ensure(frozen, access, options);
}

base::Result<void> import_image(Submission& submission) {
    if (!submission.plan->container) return {};
    const plan::Container& container = *submission.plan->container;
    const std::string& directory = submission.plan->directories.plan_directory;
    const auto imported =
        image::access_of_job(container, directory).and_then([&](const image::Access& access) {
            return ensure_image(submission.store, submission.slurm, container, access);
        });
    if (imported) return {};
    static_cast<void>(base::remove_tree(submission.directory));
    return tl::unexpected(imported.error());
}

}  // namespace batchai::submit
