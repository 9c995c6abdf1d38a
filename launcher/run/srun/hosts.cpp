// SPDX-License-Identifier: GPL-2.0-or-later
#include "run/srun/hosts.hpp"

#include <fmt/format.h>

namespace batchai::run {

std::string host_file(const std::vector<std::string>& addresses, int slots) {
    std::string out;
    for (const std::string& address : addresses)
        out += fmt::format("{0} slots={1} max_slots={1}\n", address, slots);
    return out;
}

}  // namespace batchai::run
