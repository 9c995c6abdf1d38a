// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_set>
#include <vector>

namespace mpi_bridge {

// Watches the executions until it sees a step: a sequence of operations, each of them once, that
// contains all operations of the sequence before it. Names that come only once in a job (the first
// broadcasts), or not in every step, prevent a sequence from being a step, or are left out of it.
//
// Every member feeds the same executions, and so sees the same step at the same time.
class Recorder {
  public:
    struct Execution {
        std::uint32_t id = 0;
        std::uint64_t serial = 0;
    };

    void executed(Execution execution);

    // Returns the step, in the order of its execution, if a whole one has just been executed. Call
    // it when all operations that were agreed on together have been executed.
    [[nodiscard]] std::optional<std::vector<Execution>> step() const;

    // The step has been used: the next one is seen when it has been executed too.
    void restart_after_step();

    // Forgets everything.
    void restart();

  private:
    std::vector<Execution> current_;
    std::unordered_set<std::uint32_t> in_current_;
    std::unordered_set<std::uint32_t> previous_;  // empty: there was no complete sequence before
};

}  // namespace mpi_bridge
