// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/environment.hpp"
#include "core/failure.hpp"

// Records from which a launcher learns why ranks failed. The messages on standard error are for
// people and may change; these records may not.
namespace mpi_bridge {

// Writes a file with one JSON object whose members are strings. A record that cannot be written is
// no error.
void write_record(const std::string& path,
                  const std::vector<std::pair<std::string_view, std::string_view>>& members);

// MPI_BRIDGE_FAILURE_RECORD=PATH: writes the first failure of this rank to PATH.RANK.json, with the
// cause "peerLost" if it only follows from the end of another rank, and "other" otherwise.
void record_failure(const Environment& environment, int rank, const Failure& failure);

// For a rank that ends the step itself. Overwrites what was recorded before.
void record_abort(const Environment& environment, int rank, std::string_view message);

// Removes the record, for a rank that joins the step once more.
void forget_failure(const Environment& environment, int rank);

}  // namespace mpi_bridge
