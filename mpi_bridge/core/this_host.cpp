// SPDX-License-Identifier: Apache-2.0
#include "core/this_host.hpp"

#include <array>
#include <climits>
#include <fstream>

#include <unistd.h>

namespace mpi_bridge {

std::string host_name() {
    std::array<char, HOST_NAME_MAX + 1> name{};
    if (gethostname(name.data(), name.size() - 1) != 0) return {};
    return name.data();
}

std::string boot_id() {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    return id;
}

}  // namespace mpi_bridge
