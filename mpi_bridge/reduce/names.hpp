// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mpi_bridge.h"

namespace mpi_bridge {

// The names of mpi_bridge.h, such as "MPIB_FLOAT32" and "MPIB_SUM", for messages; an unknown value
// is shown by its number: "datatype 42", "operation 42".
[[nodiscard]] std::string datatype_name(mpib_datatype datatype);
[[nodiscard]] std::string op_name(mpib_op op);

}  // namespace mpi_bridge
