// SPDX-License-Identifier: GPL-2.0-or-later
// The part of an attempt that sees to the container's image: on the first node, once for all.
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "image/access.hpp"
#include "image/ensure.hpp"
#include "run/attempt.hpp"

namespace batchai::run {

namespace {

constexpr std::string_view container_failed = "unable to start docker container";

std::string_view words_for(image::Ensured ensured) {
    switch (ensured) {
        case image::Ensured::was_there:
            return "is there";
        case image::Ensured::imported:
            return "is imported";
        case image::Ensured::imported_by_another:
            return "was imported by another process";
    }
    return {};
}

}  // namespace

bool AttemptRunner::have_image() {
    begin_phase("image");
    const plan::Container& container = *plan_.container;
    std::optional<int> stopped_by;
    image::ProgressPrinter printer;
    image::EnsureOptions options;
    options.in_use = images_in_use_;
    // The site's shared directory is the admin's: nothing is removed there.
    const auto directory = std::filesystem::path(container.root).parent_path();
    if (directory != site_.shared_image_directory)
        options.limit = std::int64_t{site_.image_cache_limit} << 30U;
    options.watch.interrupted = [&] {
        while (const auto signal = signals_.next()) {
            if (*signal == SIGTERM || *signal == SIGINT) stopped_by = signal;
        }
        return stopped_by.has_value();
    };
    options.show = [&](const image::Progress& progress) { printer.show(progress); };
    const auto ensured =
        image::access_of_job(container.source, plan_.directories.job_directory, site_)
            .and_then([&](const image::Access& access) {
                return image::ensure(container, access, options);
            });
    if (ensured) {
        end_phase(0);
        log_.master(fmt::format("the image {} {}", container.image, words_for(*ensured)));
        return true;
    }
    if (stopped_by) {
        StepResult result;
        result.stopped_by = stopped_by;
        const auto end = ended_from_outside(result, "image");
        fail(end->failure, end->exit_code);
        return false;
    }
    base::Error error = ensured.error();
    std::fprintf(stderr, "batchai: error: %s\n", error.text().c_str());
    error.hint.clear();  // the record has one line for it
    log_.master("the image cannot be had: " + error.text());
    fail({"FailedStartingContainer",
          fmt::format("{} {}", container_failed, container.image),
          "image",
          granted_.nodes.front(),
          {},
          {},
          {},
          error.text()},
         1);
    return false;
}

}  // namespace batchai::run
