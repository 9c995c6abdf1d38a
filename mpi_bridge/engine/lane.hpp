// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/deadline.hpp"
#include "engine/descriptor.hpp"
#include "engine/entry.hpp"
#include "engine/execution.hpp"
#include "engine/plan.hpp"

namespace mpi_bridge {

// Where this rank is in the plan: which item is next, and which of its tensors are still to be
// submitted. Items are run in order and for ever; position p is item p modulo their number. Guarded
// by the ensemble's mutex, but for what only the thread that runs the head touches.
class Lane {
  public:
    struct Tensors {  // a part, with all that is needed to take part in it without the tensors
        std::vector<std::uint32_t> ids;
        std::vector<std::size_t> counts;
        Descriptor what;
        std::string label;  // for messages: allreduce "x"
        std::size_t bytes = 0;
    };
    struct Spot {
        std::vector<Tensors> parts;
        std::size_t operations = 0;
        std::size_t bytes = 0;
        std::size_t missing = 0;  // operations that this rank has not submitted
        Clock::time_point filled;
    };

    void adopt(std::vector<Spot> spots) {
        spots_ = std::move(spots);
        ++epoch_;
        started_ = 0;
        finished_ = 0;
        frozen = false;
        on_device_ = false;
        for (const Spot& spot : spots_) {
            for (const Tensors& part : spot.parts)
                on_device_ = on_device_ || part.what.device;
        }
    }
    void drop() { spots_.clear(); }

    [[nodiscard]] bool active() const { return !spots_.empty(); }
    // Some item is on device memory.
    [[nodiscard]] bool on_device() const { return active() && on_device_; }
    [[nodiscard]] Spot& head() { return spots_[finished_ % spots_.size()]; }
    [[nodiscard]] Spot& at(int item) { return spots_[static_cast<std::size_t>(item)]; }
    [[nodiscard]] const std::vector<Spot>& spots() const { return spots_; }
    [[nodiscard]] std::uint64_t started() const { return started_; }
    [[nodiscard]] std::uint64_t finished() const { return finished_; }
    // The same for all members that are at the same position of the same plan.
    [[nodiscard]] std::uint64_t agreement() const { return epoch_ << 40 | started_; }
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

    [[nodiscard]] bool can_run() { return active() && !busy && !frozen && head().missing == 0; }
    // The next item waits for tensors of this rank, and nobody else is to blame.
    [[nodiscard]] bool starves() { return active() && !busy && !frozen && head().missing != 0; }

    void start() {
        busy = true;
        ++started_;
    }
    void finish(bool whole) {
        busy = false;
        if (!whole) return;
        Spot& spot = head();
        spot.missing = spot.operations;
        ++finished_;
    }

    bool busy = false;    // a thread runs the head
    bool frozen = false;  // the ranks are about to leave the plan: nothing may be started
    // Of the thread that runs the head; kept for their memory.
    std::vector<Entry*> entries;
    std::vector<Tensor> tensors;

  private:
    std::vector<Spot> spots_;
    bool on_device_ = false;
    std::uint64_t epoch_ = 0;
    std::uint64_t started_ = 0;
    std::uint64_t finished_ = 0;
};

}  // namespace mpi_bridge
