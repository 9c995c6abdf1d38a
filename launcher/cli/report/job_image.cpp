// SPDX-License-Identifier: GPL-2.0-or-later
#include "cli/report/job_image.hpp"

#include <array>
#include <csignal>
#include <filesystem>
#include <utility>

#include <pwd.h>
#include <unistd.h>

#include "base/file.hpp"
#include "image/resolve.hpp"

namespace batchai::cli {
namespace {

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};
volatile std::sig_atomic_t stop_asked = 0;

void note_stop(int /*number*/) {
    stop_asked = 1;
}

// While it lives, signals that end a program are noted, so that an import can clean up behind it.
class NotedSignals {
  public:
    NotedSignals() {
        stop_asked = 0;
        struct sigaction action {};
        action.sa_handler = note_stop;
        sigemptyset(&action.sa_mask);
        for (std::size_t i = 0; i < stop_signals.size(); ++i)
            sigaction(stop_signals.at(i), &action, &before_.at(i));
    }
    ~NotedSignals() {
        for (std::size_t i = 0; i < stop_signals.size(); ++i)
            sigaction(stop_signals.at(i), &before_.at(i), nullptr);
    }
    NotedSignals(const NotedSignals&) = delete;
    NotedSignals& operator=(const NotedSignals&) = delete;

  private:
    std::array<struct sigaction, stop_signals.size()> before_{};
};

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

base::Result<plan::Container> resolve_image(const store::Store& store, const site::Site& site,
                                            const job::ContainerSettings& settings) {
    const auto reference = image::parse(settings.image, settings.server_url);
    if (!reference) return base::fail(reference.error().what, {}, reference.error().hint);
    const auto access = TRY(image::access_for(*reference, site, login_of(settings)));
    return image::resolve(*reference, settings.image, image_places(store, site), access, {});
}

base::Result<image::Ensured> ensure_image(const store::Store& store, const slurm::Client& slurm,
                                          const plan::Container& container,
                                          const image::Access& access) {
    const NotedSignals noted;
    image::ProgressPrinter printer;
    image::EnsureOptions options;
    options.limit = container.cache_limit;
    options.in_use = [&] { return images_in_use(store, slurm); };
    options.watch.interrupted = [] { return stop_asked != 0; };
    options.show = [&](const image::Progress& progress) { printer.show(progress); };
    // The default directory is in the user's records, which may not be there yet.
    TRY(base::make_directories(store.home(), 0700));
    return image::ensure(container, access, options);
}

}  // namespace batchai::cli
