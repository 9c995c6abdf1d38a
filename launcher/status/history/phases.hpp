// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "status/history/facts.hpp"

// The phases of each attempt on each node, as bars on an axis of time. The terminal and the page
// draw the same bars.
namespace batchai::status {

struct Bar {
    std::string phase{};
    base::Time begin{};
    base::Time end{};  // now, if it is still open
    bool open = false;
    bool failed = false;
    // When the node could start its tasks. None if the node has not said so.
    std::optional<base::Time> ready{};

    bool operator==(const Bar&) const = default;
};

struct NodeRow {
    std::string node{};
    std::vector<Bar> bars{};  // in the order of time

    bool operator==(const NodeRow&) const = default;
};

struct AttemptBars {
    int number = 1;
    base::Time begin{};
    base::Time end{};
    bool open = false;  // the attempt runs
    std::vector<NodeRow> rows{};

    [[nodiscard]] double seconds() const;
};

// How the pictures of a job show a phase.
struct PhaseLook {
    std::string_view name;
    char letter = '#';                    // on the terminal
    int colour = 7;                       // there: of its eight
    std::string_view css_class = "mute";  // on the page
    // Whether the phase does something on each node. The others run on the first node only, and the
    // other nodes wait.
    bool on_all_nodes = false;
};

[[nodiscard]] std::span<const PhaseLook> phase_looks();

// Returns the look of this phase, or that of "other" if nothing is known of it.
[[nodiscard]] const PhaseLook& look_of(std::string_view phase);

[[nodiscard]] std::vector<AttemptBars> bars_of(const Facts& facts);

// Returns the time from one moment to another in seconds.
[[nodiscard]] double seconds_between(base::Time from, base::Time to);

// Returns a time span for people: "0.4 s", "12 s", "3 min 20 s", "2 h 05 min", "3 d 4 h".
[[nodiscard]] std::string duration_text(double seconds);

// Returns a time for people, in UTC: "2026-06-21 17:15:18".
[[nodiscard]] std::string time_text(base::Time time);

}  // namespace batchai::status
