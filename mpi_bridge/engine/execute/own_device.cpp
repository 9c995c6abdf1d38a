// SPDX-License-Identifier: Apache-2.0
#include "engine/execute/own_device.hpp"

#include <fmt/core.h>

#include "gpu/device_group.hpp"

namespace mpi_bridge {

std::string place_name(int device) {
    return device < 0 ? std::string("host memory") : fmt::format("CUDA device {}", device);
}

Done OwnDevice::choose(int device) {
    if (device < host) return invalid(fmt::format("{} is no CUDA device", device));
    if (const int count = device_count(); device >= count) {
        return invalid(fmt::format("there is no CUDA device {}: this process sees {}", device,
                                   count == 0 ? "none" : fmt::format("{} of them", count)));
    }
    int expected = unknown;
    if (known_.compare_exchange_strong(expected, device) || expected == device) return {};
    return invalid(fmt::format("the tensors of this process are in {}, so they cannot be in {}",
                               place_name(expected), place_name(device)));
}

void OwnDevice::noted(int device) {
    int expected = unknown;
    known_.compare_exchange_strong(expected, device);
}

void OwnDevice::suppose_current() {
    if (known_ != unknown) return;
    if (const int current = current_device(); current >= 0) supposed_ = current;
}

int OwnDevice::settle(int local_index) {
    int chosen = known_;
    if (chosen == unknown) chosen = supposed_;
    if (chosen == unknown) {
        const int count = device_count();
        chosen = count == 0 ? host : local_index % count;
    }
    int expected = unknown;
    return known_.compare_exchange_strong(expected, chosen) ? chosen : expected;
}

}  // namespace mpi_bridge
