// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "status/history/facts.hpp"

namespace batchai::status {

// A time that is so many seconds after the start of the jobs of these tests.
inline base::Time at(double seconds) {
    using namespace std::chrono;
    return base::Time(sys_days(2026y / 6 / 21) + 10h) +
           microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

inline record::Phase phase(std::string name, double start, std::optional<double> end,
                           int exit_code = 0) {
    return {.name = std::move(name),
            .start = at(start),
            .end = end ? std::optional(at(*end)) : std::nullopt,
            .exit_code = exit_code};
}

// A job that has trained on three nodes for 100 s, 40 s of which were preparation. Node h2 needed
// less of them.
inline Facts trained() {
    Facts facts;
    facts.job = {.name = "train",
                 .slurm_job_id = "17",
                 .state = "succeeded",
                 .ended = true,
                 .ended_by = "program",
                 .exit_code = 0,
                 .created = at(-10),
                 .start = at(0),
                 .end = at(100),
                 .error_code = {},
                 .error_message = {},
                 .why_it_waits = {},
                 .expected_start = {}};
    facts.asked = {
        .tool = "horovod", .command = "python train.py", .image = {}, .nodes = 3, .ranks = 3};
    record::Attempt attempt;
    attempt.number = 1;
    attempt.slurm_job_id = "17";
    attempt.nodes = {"h1", "h2", "h3"};
    attempt.start = at(0);
    attempt.end = at(100);
    attempt.exit_code = 0;
    attempt.ended_by = record::EndedBy::program;
    attempt.phases = {phase("outputs", 0, 1), phase("preparation", 1, 41), phase("wire-up", 41, 43),
                      phase("ranks", 43, 100)};
    facts.attempts = {attempt};
    // The first step is that of the batch script.
    facts.node_steps = {{.node = "h1", .begin = at(-0.5), .ready = at(-0.4), .end = at(100)},
                        {.node = "h1", .begin = at(2), .ready = at(4), .end = at(40)},
                        {.node = "h1", .begin = at(41.2), .ready = at(41.3), .end = at(42.8)},
                        {.node = "h1", .begin = at(43.5), .ready = at(44), .end = at(99)},
                        // Somebody looks around on the node.
                        {.node = "h1", .begin = at(60), .ready = at(61), .end = at(90)},
                        {.node = "h2", .begin = at(2), .ready = at(3), .end = at(12)}};
    facts.now = at(200);
    return facts;
}

// Steps of a rank: of each, the rank's own work and the whole.
inline RankTimeline rank_of_steps(int rank, std::size_t count, double own, double total) {
    RankTimeline out{.rank = rank, .host = "h" + std::to_string(rank + 1), .steps = {}};
    for (std::size_t i = 0; i < count; ++i)
        out.steps.push_back({.begin = at(static_cast<double>(i) * total),
                             .total = total,
                             .own = own,
                             .transfer = total - own,
                             .bytes = 1000});
    return out;
}

}  // namespace batchai::status
