// SPDX-License-Identifier: Apache-2.0
//
// Memory that the other ranks of the node can reach.
#include <utility>

#include "api/guard.hpp"
#include "api/library.hpp"
#include "mpi_bridge.h"

void* mpib_alloc(size_t bytes) {
    void* memory = nullptr;
    const mpib_status status = mpi_bridge::guarded([&]() -> mpi_bridge::Done {
        auto allocated = mpi_bridge::Library::instance().allocate(bytes);
        if (!allocated) return mpi_bridge::pass_on(std::move(allocated));
        memory = *allocated;
        return {};
    });
    return status == MPIB_OK ? memory : nullptr;
}

void mpib_free(void* memory) {
    // A pointer that is not from mpib_alloc() is a fault of the caller that must not go unseen.
    (void)mpi_bridge::guarded([&] { return mpi_bridge::Library::instance().release(memory); });
}
