// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

namespace batchai::base {

// A random (version 4) UUID in lower case, from the kernel's generator.
[[nodiscard]] std::string random_uuid();

}  // namespace batchai::base
