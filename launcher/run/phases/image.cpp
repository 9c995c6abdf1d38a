// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "image/credentials.hpp"
#include "image/ensure.hpp"
#include "run/blame/outside.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

namespace {

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

PhaseEnd Image::run(Context& context) {
    const plan::Container& container = *context.plan.container;
    StepResult interruption;
    image::ProgressPrinter printer;
    image::EnsureOptions options;
    options.in_use = context.options.images_in_use;
    options.limit = container.cache_limit;
    options.watch.interrupted = [&] {
        if (const auto signal = context.steps.stopped_by()) {
            interruption.stopped_by = signal;
            interruption.exit_code = 128 + *signal;
        }
        return interruption.stopped_by.has_value();
    };
    options.show = [&](const image::Progress& progress) { printer.show(progress); };
    const auto ensured = image::access_of_job(container, context.plan.directories.plan_directory)
                             .and_then([&](const image::Access& access) {
                                 return image::ensure(container, access, options);
                             });
    if (ensured) {
        context.log.master(fmt::format("the image {} {}", container.image, words_for(*ensured)));
        return {};
    }
    if (auto ending = ended_from_outside(context, interruption, name))
        return ends_with(std::move(*ending));
    base::Error error = ensured.error();
    std::fprintf(stderr, "batchai: error: %s\n", error.text().c_str());
    error.hint.clear();  // the record has room for one line only
    context.log.master("the image is not available: " + error.text());
    return ends_with({.failure = {.code = "FailedStartingContainer",
                                  .message = "unable to start docker container " + container.image,
                                  .phase = std::string(name),
                                  .node = context.granted.nodes.front(),
                                  .first_error_line = error.text()}});
}

}  // namespace batchai::run
