// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "node/beneath.hpp"

namespace batchai::node {

// Writes into a container's directory during which run of the node it is used. Best effort.
void note_boot(const Root& place);

// Notes that the job is over, so that whoever comes next may remove what is left of it.
void note_end(const Root& place);

// Whether the directory is of a job that cannot live any more, by one of those notes.
[[nodiscard]] bool is_leftover(const Root& place);

}  // namespace batchai::node
