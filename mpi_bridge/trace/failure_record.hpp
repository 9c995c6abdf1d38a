// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bootstrap/launch.hpp"
#include "core/failure.hpp"

// What a launcher reads to learn why ranks failed. The messages on standard error are for people
// and may change; these records may not.
namespace mpi_bridge {

// A file with one JSON object whose members are texts. Does its best: a record that cannot be
// written fails nothing.
void write_record(const std::string& path,
                  const std::vector<std::pair<std::string_view, std::string_view>>& members);

// MPI_BRIDGE_FAILURE_RECORD=PATH: the first failure of this rank is written to PATH.RANK.json, with
// the cause "peerLost" where it only follows from the end of another rank, and "other" otherwise.
void record_failure(const Environment& environment, int rank, const Failure& failure);

// This rank ends the step itself: over what was recorded before.
void record_abort(const Environment& environment, int rank, std::string_view message);

// A rank that joins the step once more has left its failure behind.
void forget_failure(const Environment& environment, int rank);

}  // namespace mpi_bridge
