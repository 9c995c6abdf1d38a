// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdlib>

namespace batchai::fuzz {

// A broken promise ends the program, which is what a fuzzer takes for a fault.
inline void promise(bool kept) {
    if (!kept) std::abort();
}

}  // namespace batchai::fuzz
