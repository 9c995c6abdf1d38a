// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "mpi_bridge_engine.h"

namespace mpi_bridge {

// What keeps an operation on device memory, of elements of this size, from being run; "" if nothing
// does. Found before the operation is agreed on, because the device's own refusal on one rank alone
// would leave the others waiting.
[[nodiscard]] inline std::string fault_on_device(const mpib_operation& operation,
                                                 std::size_t element_bytes) {
    if (operation.kind == MPIB_REDUCE)
        return "reduce of device memory is not supported yet; use allreduce";
    for (const void* memory : {operation.send, const_cast<const void*>(operation.recv)}) {
        if (reinterpret_cast<std::uintptr_t>(memory) % element_bytes != 0)
            return "device memory is not aligned to its elements";
    }
    return {};
}

}  // namespace mpi_bridge
