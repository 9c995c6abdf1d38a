// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include "base/json.hpp"
#include "status/history/events.hpp"
#include "status/history/findings.hpp"

// The report as JSON.
namespace batchai::status {

[[nodiscard]] base::Value numbers_of(const Findings& findings);
// Returns a list of {attempt, kind, node, rank, text, time}.
[[nodiscard]] base::Value events_value(const std::vector<Event>& events);

}  // namespace batchai::status
