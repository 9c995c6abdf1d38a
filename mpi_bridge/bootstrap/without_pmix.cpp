// SPDX-License-Identifier: Apache-2.0
//
// In place of pmix_bootstrap.cpp where mpi_bridge is built without PMIx (MPI_BRIDGE_BARE).
#include "bootstrap/bootstrap.hpp"

namespace mpi_bridge {

Outcome<std::unique_ptr<Bootstrap>> connect_pmix(Deadline /*deadline*/, bool /*all_tasks_run*/) {
    return fail(MPIB_ERROR_BOOTSTRAP,
                "a PMIx launcher started this process, but this libmpi_bridge was built without "
                "PMIx: start the ranks with `srun --mpi=pmi2`, or use a complete build");
}

std::string pmix_versions() {
    return "built without PMIx";
}

std::string pmix_client_library() {
    return {};
}

}  // namespace mpi_bridge
