// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mpi_bridge_engine.h"

namespace mpi_bridge::torch {

/// The properties of an operation that are equal on all ranks. -1: none.
struct Signature {
    int kind = -1;
    int scalar_type = -1;
    std::int64_t elements = -1;
    int op = -1;
    int root = -1;

    friend bool operator==(const Signature&, const Signature&) = default;
};

/// The names of one group's operations, in the order of their submission.
///
/// torch.distributed matches operations by their order in a group. The engine matches them by name,
/// and plans what is repeated under the same names. A training loop repeats one sequence of
/// operations, so this finds the period of the sequence and gives each place of a cycle a name of
/// its own. All ranks see the same sequence, and so find the same names without communication. The
/// names are those of naming.py.
class Naming {
  public:
    explicit Naming(std::string prefix) : prefix_(std::move(prefix)) {}

    /// The number of operations so far.
    [[nodiscard]] std::int64_t count() const { return submitted_; }

    /// The number of the present cycle if the name belongs to it, else 0.
    [[nodiscard]] int cycle_of(const std::string& name) const;

    /// The name of the next operation. The names `taken` are in use by operations that end together
    /// with this one, so it gets another one, as on all ranks.
    std::string name(const Signature& signature, std::span<const std::string> taken);

  private:
    [[nodiscard]] std::string prefix_of_cycle() const;
    std::string planned();
    void look_for_a_cycle();
    [[nodiscard]] std::optional<std::size_t> period_from(std::size_t shortest) const;

    std::string prefix_;
    std::int64_t submitted_ = 0;
    std::int64_t outside_ = 0;  // the number of names outside a cycle
    int generation_ = 0;
    std::vector<Signature> history_;
    std::vector<Signature> cycle_;
    std::size_t period_ = 0;
    std::size_t place_ = 0;
    std::size_t misses_ = 0;  // consecutive operations outside the cycle
};

}  // namespace mpi_bridge::torch
