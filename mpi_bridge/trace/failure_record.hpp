// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/environment.hpp"
#include "core/failure.hpp"

// Records from which a launcher learns why ranks failed. The messages on standard error are for
// people and may change; these records may not.
namespace mpi_bridge {

// MPI_BRIDGE_FAILURE_RECORD=PATH: writes the first failure of this rank to PATH.RANK.json, with the
// cause "peerLost" if it only follows from the end of another rank, and "other" otherwise. Returns
// after half a second even if the file system hangs; the record may then come later. With
// MPI_BRIDGE_FAILURE_RECORD_RANK=N the path has this number, because the rank has had another one
// when the launcher started it.
void record_failure(const Environment& environment, int rank, const Failure& failure);

// For a rank that ends the step itself. Overwrites what was recorded before. Waits at most five
// seconds for the file system.
void record_abort(const Environment& environment, int rank, std::string_view message);

// Removes the record, for a rank that joins the step once more.
void forget_failure(const Environment& environment, int rank);

}  // namespace mpi_bridge
