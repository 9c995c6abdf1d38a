// SPDX-License-Identifier: Apache-2.0
#include "reduce/datatypes.hpp"

#include <iterator>

#include "reduce/table.hpp"

namespace mpi_bridge {
namespace {

constexpr const char* datatype_names[] = {
#define MPIB_NAME(NAME, ...) "MPIB_" #NAME,
    MPI_BRIDGE_DATATYPES(MPIB_NAME)
#undef MPIB_NAME
};
constexpr const char* op_names[] = {"MPIB_SUM",     "MPIB_AVERAGE", "MPIB_MIN", "MPIB_MAX",
                                    "MPIB_PRODUCT", "MPIB_AND",     "MPIB_OR"};
static_assert(std::size(op_names) == op_count);

}  // namespace

std::string datatype_name(mpib_datatype datatype) {
    const auto number = static_cast<unsigned>(datatype);
    return number < datatype_count ? datatype_names[number]
                                   : "datatype " + std::to_string(static_cast<int>(datatype));
}

std::string op_name(mpib_op op) {
    const auto number = static_cast<unsigned>(op);
    return number < op_count ? op_names[number]
                             : "operation " + std::to_string(static_cast<int>(op));
}

}  // namespace mpi_bridge
