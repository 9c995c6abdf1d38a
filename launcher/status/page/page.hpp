// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <string>

#include "status/history/findings.hpp"

// The report as one page of HTML that needs nothing else: no script, no font, no picture, no
// network. Whatever the job's records have, the page shows it as text. The parts of the page, and
// the chart of the terminal:
//
//   attempts.cpp  the section about the attempts: their phases, and what they used
//   speed.cpp     the section about the speed of the ranks
//   html.hpp      the parts that a page is made of
//   style.hpp     the style sheet
//   axis.hpp      the marks of an axis of time
//   chart.hpp     the phases of each node, for the terminal
namespace batchai::status {

[[nodiscard]] std::string page_of(const Findings& findings);

// Sections of the page, each defined in a file of its own. Empty if there is nothing to show.
[[nodiscard]] std::string attempts_section(const Findings& findings);
[[nodiscard]] std::string speed_section(const Findings& findings);

}  // namespace batchai::status
