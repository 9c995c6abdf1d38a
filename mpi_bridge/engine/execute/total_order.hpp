// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>

namespace mpi_bridge {

// One rank's part in agreeing on one order for the operations of process sets that overlap, so that
// all ranks take the operations that they share in the same order (Skeen's algorithm for a total
// order, see Birman and Joseph, "Reliable Communication in the Presence of Failures", 1987).
//
// Each member of a set proposes a time of its own logical clock for an operation. The operation
// gets the latest of these times; equal times are ordered by the id of the set. A rank takes an
// operation when every other one that it knows of comes later: one that is not agreed yet gets at
// least the time that this rank has proposed for it, and one that is not proposed yet gets a time
// later than all that this rank has heard of.
//
// All members must come to the exchange of proposals without waiting for anything but earlier turns
// and each other. Therefore propose() is called only when all members have submitted the operation.
// Then no rank waits in a cycle, because every rank waits for operations of earlier times only.
//
// A set has one operation between propose() and finish() at a time. No thread, lock or clock.
class TotalOrder {
  public:
    using Time = std::uint64_t;

    // Returns what this member proposes for the next operation of the set.
    [[nodiscard]] Time propose(int process_set);
    // `latest` is the latest of all members' proposals.
    void agreed(int process_set, Time latest);
    // Whether the operation is agreed and this rank has to take it next.
    [[nodiscard]] bool is_next(int process_set) const;
    // The rank has taken the operation, or has given it up after a failure.
    void finish(int process_set);

  private:
    struct Operation {
        Time time = 0;  // proposed; later the agreed one
        bool agreed = false;
    };

    Time now_ = 0;  // no earlier than any time proposed or agreed here
    std::map<int, Operation> operations_;
};

}  // namespace mpi_bridge
