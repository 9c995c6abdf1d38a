// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "../reference.hpp"
#include "reduce/datatypes.hpp"
#include "reduce/instruction_sets.hpp"

namespace mpi_bridge_test {

constexpr mpib_datatype every_datatype[] = {MPIB_UINT8,   MPIB_INT8,    MPIB_INT16,    MPIB_INT32,
                                            MPIB_INT64,   MPIB_FLOAT16, MPIB_BFLOAT16, MPIB_FLOAT32,
                                            MPIB_FLOAT64, MPIB_BOOL};
constexpr mpib_op every_op[] = {MPIB_SUM,     MPIB_AVERAGE, MPIB_MIN, MPIB_MAX,
                                MPIB_PRODUCT, MPIB_AND,     MPIB_OR};

// Calls f(reduction, datatype, op) for every pair that has a meaning, with the reduction of each
// instruction set that this processor can run.
template <typename F>
void for_every_reduction(F&& f) {
    for (const auto& set : mpi_bridge::instruction_sets()) {
        if (!set.runs_here()) continue;
        for (const auto datatype : every_datatype) {
            for (const auto op : every_op) {
                const auto* reduction = look_up(set.table(), datatype, op);
                if (reduction == nullptr) continue;
                SCOPED_TRACE(testing::Message()
                             << mpi_bridge::op_name(op) << " of "
                             << mpi_bridge::datatype_name(datatype) << ", " << set.name);
                f(*reduction, datatype, op);
                if (testing::Test::HasFatalFailure()) return;
            }
        }
    }
}

using Bytes = std::vector<unsigned char>;

// Memory that starts at an odd address, so that nothing in it is aligned.
class Misaligned {
  public:
    explicit Misaligned(std::size_t bytes) : memory_(bytes + 1, 0xA5) {}
    explicit Misaligned(const Bytes& content) : memory_(1) {
        memory_.insert(memory_.end(), content.begin(), content.end());
    }
    [[nodiscard]] unsigned char* data() { return memory_.data() + 1; }
    [[nodiscard]] Bytes content() const { return {memory_.begin() + 1, memory_.end()}; }

  private:
    Bytes memory_;
};

}  // namespace mpi_bridge_test
