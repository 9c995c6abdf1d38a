// SPDX-License-Identifier: Apache-2.0
#include "trace/trace.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <fmt/core.h>

namespace mpi_bridge {
namespace {

void stop_at_exit() {
    // A timeline that failed earlier has reported that on standard error.
    const Done ignored = trace().timeline.stop();
    static_cast<void>(ignored);
}

}  // namespace

Trace& trace() {
    static auto* const process_wide = new Trace();
    return *process_wide;
}

Done start_timeline(std::string_view path, int rank, int size) {
    TRY(trace().timeline.start(path, rank, size));
    static std::once_flag registered;
    std::call_once(registered, [] { std::atexit(stop_at_exit); });
    return {};
}

Done start_timeline_from_environment(const Environment& environment, int rank, int size) {
    const char* name = "MPI_BRIDGE_TIMELINE";
    auto path = environment(name);
    if (!path || path->empty()) {
        name = "HOROVOD_TIMELINE";
        path = environment(name);
        if (!path || path->empty() || *path == "DYNAMIC") return {};
    }
    Done started = start_timeline(*path, rank, size);
    if (started) return started;
    return fail(started.error().status, fmt::format("{}: {}", name, started.error().text));
}

}  // namespace mpi_bridge
