// SPDX-License-Identifier: GPL-2.0-or-later
#include <cstdio>
#include <string>

#include <fmt/format.h>

#include "node/volumes/volumes.hpp"
#include "run/phases/phase.hpp"

namespace batchai::run {

bool StoreLogs::wanted(const Context& context) {
    const auto place = context.plan.place_of(context.plan.directories.stdouterr);
    return place.mount != nullptr && place.mount->remote.has_value();
}

PhaseEnd StoreLogs::run(Context& context) {
    const std::string& logs = context.logs.path();
    context.log.collect_traces();
    const auto stored =
        node::store_on_volume(context.plan, logs, context.plan.directories.stdouterr);
    if (stored) return {};
    const std::string text = fmt::format("the logs stay in {}: {}", logs, stored.error().text());
    context.log.master(text);
    std::fprintf(stderr, "batchai: warning: %s\n", text.c_str());
    return {.exit_code = 1, .ending = {}};
}

}  // namespace batchai::run
