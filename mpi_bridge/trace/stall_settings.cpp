// SPDX-License-Identifier: Apache-2.0
#include "trace/stall_settings.hpp"

#include <optional>
#include <string>

#include <fmt/core.h>

#include "core/settings.hpp"

namespace mpi_bridge {
namespace {

// Reads `ours` or, where that is not set, `theirs`, which may be nullptr.
Outcome<Seconds> seconds_of(const Environment& environment, const char* ours, const char* theirs,
                            Seconds otherwise) {
    for (const char* name : {ours, theirs}) {
        const auto text = name == nullptr ? std::nullopt : environment(name);
        if (!text || text->empty()) continue;
        if (*text == "0") return Seconds(0);
        if (const auto seconds = parse_seconds(*text)) return *seconds;
        return fail(
            MPIB_ERROR_INVALID_ARGUMENT,
            fmt::format("{}=\"{}\" is not a number of seconds, or 0 for never", name, *text));
    }
    return otherwise;
}

}  // namespace

Outcome<StallSettings> stall_settings(const Environment& environment) {
    StallSettings settings;
    const auto disable = environment("HOROVOD_STALL_CHECK_DISABLE");
    const bool disabled = disable && !disable->empty() && *disable != "0";
    if (disabled) settings = {Seconds(0), Seconds(0)};

    const auto report =
        TRY(seconds_of(environment, "MPI_BRIDGE_STALL_SECONDS",
                       disabled ? nullptr : "HOROVOD_STALL_CHECK_TIME_SECONDS", settings.report));
    const auto shut_down = TRY(
        seconds_of(environment, "MPI_BRIDGE_STALL_SHUTDOWN_SECONDS",
                   disabled ? nullptr : "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", settings.shut_down));
    return StallSettings{report, shut_down};
}

}  // namespace mpi_bridge
