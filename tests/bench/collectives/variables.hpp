// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace bench {

// A variable of the environment that `run` must have set.
inline std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
    return value;
}

}  // namespace bench
