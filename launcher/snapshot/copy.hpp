// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <functional>

#include "base/error.hpp"
#include "plan/plan.hpp"
#include "record/snapshot.hpp"
#include "snapshot/listing.hpp"

namespace batchai::snapshot {

// Returns what `batchai job show` and a dry run tell of a listing.
[[nodiscard]] record::Snapshot described(const plan::Snapshot& snapshot, const Listing& listing);

// Copies what is listed to the snapshot's directory, which must not exist, and writes the record
// and the patch beside it. Files keep their mode bits and times, and belong to the user. Fails if
// the directory has grown above the limit in the meantime, and if `tick` fails, which is called
// before each file.
[[nodiscard]] base::Result<void> copy(const plan::Snapshot& snapshot, const Listing& listing,
                                      const record::JobFiles& files,
                                      const std::function<base::Result<void>()>& tick = {});

}  // namespace batchai::snapshot
