// SPDX-License-Identifier: Apache-2.0
//
// The functions of the C API that are not collectives: to begin and to end, to learn where this
// rank is and what the library does, and to get memory.
#include <cmath>

#include "api/guard.hpp"
#include "api/library.hpp"
#include "core/fork_guard.hpp"
#include "mpi_bridge_engine.h"
#include "reduce/reduction.hpp"
#include "trace/trace.hpp"

namespace mpi_bridge {
namespace {

int from_topology(int Topology::*member) {
    const Topology* topology = Library::instance().topology();
    return topology == nullptr ? -1 : topology->*member;
}

Done start_own_timeline(const char* path) {
    if (path == nullptr || *path == '\0') {
        return invalid("mpib_timeline_start: no path is given");
    }
    const Topology* topology = Library::instance().topology();
    if (topology == nullptr) return not_initialized("mpib_timeline_start");
    return start_timeline(path, topology->rank, topology->size);
}

}  // namespace
}  // namespace mpi_bridge

using mpi_bridge::from_topology;
using mpi_bridge::guarded;
using mpi_bridge::Library;
using mpi_bridge::Topology;

mpib_status mpib_init(void) {
    return guarded([] { return Library::instance().initialize(nullptr); });
}

mpib_status mpib_init_with(const mpib_meeting* meeting) {
    return guarded([=]() -> mpi_bridge::Done {
        if (meeting == nullptr) return mpi_bridge::invalid("mpib_init_with: meeting is NULL");
        return Library::instance().initialize(meeting);
    });
}

mpib_status mpib_finalize(void) {
    if (mpi_bridge::in_forked_child()) return MPIB_OK;
    return guarded([] { return Library::instance().finalize(); });
}

int mpib_initialized(void) {
    return Library::instance().topology() == nullptr ? 0 : 1;
}

int mpib_rank(void) {
    return from_topology(&Topology::rank);
}
int mpib_size(void) {
    return from_topology(&Topology::size);
}
int mpib_local_rank(void) {
    return from_topology(&Topology::local_rank);
}
int mpib_local_size(void) {
    return from_topology(&Topology::local_size);
}
int mpib_cross_rank(void) {
    return from_topology(&Topology::cross_rank);
}
int mpib_cross_size(void) {
    return from_topology(&Topology::cross_size);
}

int mpib_is_homogeneous(void) {
    const Topology* topology = Library::instance().topology();
    if (topology == nullptr) return -1;
    return topology->homogeneous ? 1 : 0;
}

const char* mpib_last_error(void) {
    return mpi_bridge::remembered_text();
}

const char* mpib_version(void) {
    return MPI_BRIDGE_VERSION;
}

const char* mpib_status_name(mpib_status status) {
    switch (status) {
        case MPIB_OK:
            return "MPIB_OK";
        case MPIB_ERROR_NOT_INITIALIZED:
            return "MPIB_ERROR_NOT_INITIALIZED";
        case MPIB_ERROR_INVALID_ARGUMENT:
            return "MPIB_ERROR_INVALID_ARGUMENT";
        case MPIB_ERROR_TIMEOUT:
            return "MPIB_ERROR_TIMEOUT";
        case MPIB_ERROR_PEER_LOST:
            return "MPIB_ERROR_PEER_LOST";
        case MPIB_ERROR_MISMATCH:
            return "MPIB_ERROR_MISMATCH";
        case MPIB_ERROR_BOOTSTRAP:
            return "MPIB_ERROR_BOOTSTRAP";
        case MPIB_ERROR_INTERNAL:
            return "MPIB_ERROR_INTERNAL";
        case MPIB_ERROR_FORKED:
            return "MPIB_ERROR_FORKED";
        case MPIB_ERROR_INTERRUPTED:
            return "MPIB_ERROR_INTERRUPTED";
    }
    return "unknown mpib_status";
}

mpib_status mpib_set_timeout(double seconds) {
    return guarded([seconds]() -> mpi_bridge::Done {
        constexpr double longest = 100.0 * 365 * 24 * 3600;
        if (!std::isfinite(seconds) || seconds <= 0 || seconds > longest) {
            return mpi_bridge::invalid(
                "mpib_set_timeout: the timeout must be a positive number of seconds");
        }
        Library::instance().set_timeout(mpi_bridge::Seconds(seconds));
        return {};
    });
}

void* mpib_alloc(size_t bytes) {
    void* memory = nullptr;
    const mpib_status status = guarded([&]() -> mpi_bridge::Done {
        memory = TRY(Library::instance().allocate(bytes));
        return {};
    });
    return status == MPIB_OK ? memory : nullptr;
}

void mpib_free(void* memory) {
    // A pointer that is not from mpib_alloc() is an error of the caller, which mpib_last_error()
    // reports.
    (void)guarded([&] { return Library::instance().release(memory); });
}

mpib_status mpib_timeline_start(const char* path) {
    return guarded([path] { return mpi_bridge::start_own_timeline(path); });
}

mpib_status mpib_timeline_stop(void) {
    return guarded([] { return mpi_bridge::trace().timeline.stop(); });
}

mpib_status mpib_read_counters(mpib_counters* counters) {
    return guarded([counters]() -> mpi_bridge::Done {
        if (counters == nullptr) {
            return mpi_bridge::invalid("mpib_read_counters: counters is NULL");
        }
        return mpi_bridge::trace().counters.read(*counters);
    });
}

size_t mpib_datatype_size(mpib_datatype datatype) {
    return mpi_bridge::datatype_bytes(datatype);
}

void mpib_abort(int code, const char* message) {
    Library::instance().abort(code, message == nullptr ? "no reason given" : message);
}
