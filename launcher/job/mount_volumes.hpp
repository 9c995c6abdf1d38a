// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string_view>

#include "job/parse.hpp"

namespace batchai::job {

// Reads "mountVolumes" that stand alone, as a cluster's record and the options of a command line
// have them, in the way of a job file. The spec has nothing but them. The pointers of the positions
// are those of a job file, "/properties/mountVolumes/…"; the places are those in `text`.
[[nodiscard]] Parsed parse_mount_volumes(std::string_view text);

}  // namespace batchai::job
