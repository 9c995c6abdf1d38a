// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C API that tell what the library does.
#include "api/guard.hpp"
#include "api/library.hpp"
#include "mpi_bridge_engine.h"
#include "trace/trace.hpp"

namespace mpi_bridge {
namespace {

Done start_own_timeline(const char* path) {
    if (path == nullptr || *path == '\0') {
        return fail(MPIB_ERROR_INVALID_ARGUMENT, "mpib_timeline_start: no path is given");
    }
    const Topology* topology = Library::instance().topology();
    if (topology == nullptr) {
        return fail(MPIB_ERROR_NOT_INITIALIZED, "mpib_timeline_start: call mpib_init first");
    }
    return start_timeline(path, topology->rank, topology->size);
}

}  // namespace
}  // namespace mpi_bridge

mpib_status mpib_timeline_start(const char* path) {
    return mpi_bridge::guarded([path] { return mpi_bridge::start_own_timeline(path); });
}

mpib_status mpib_timeline_stop(void) {
    return mpi_bridge::guarded([] { return mpi_bridge::trace().timeline.stop(); });
}

mpib_status mpib_read_counters(mpib_counters* counters) {
    return mpi_bridge::guarded([counters]() -> mpi_bridge::Done {
        if (counters == nullptr) {
            return mpi_bridge::fail(MPIB_ERROR_INVALID_ARGUMENT,
                                    "mpib_read_counters: counters is NULL");
        }
        return mpi_bridge::trace().counters.read(*counters);
    });
}
