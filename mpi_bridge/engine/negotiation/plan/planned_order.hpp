// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "engine/negotiation/plan/buckets.hpp"

namespace mpi_bridge {

// Where this rank is in the plan: which bucket is next, and which of its tensors are still to be
// submitted. The buckets run in their order, again and again; position p is bucket p modulo their
// number. The process set's mutex guards it, except for what only the thread that runs the head
// uses.
class PlannedOrder {
  public:
    void adopt(std::vector<Bucket> buckets) {
        buckets_ = std::move(buckets);
        ++epoch_;
        started_ = 0;
        finished_ = 0;
        frozen = false;
        on_device_ = false;
        for (const Bucket& bucket : buckets_) {
            for (const FusedGroup& group : bucket.groups)
                on_device_ = on_device_ || group.what.device;
        }
    }
    void drop() { buckets_.clear(); }

    [[nodiscard]] bool active() const { return !buckets_.empty(); }
    // Whether some bucket is on device memory.
    [[nodiscard]] bool on_device() const { return active() && on_device_; }
    [[nodiscard]] Bucket& head() { return buckets_[finished_ % buckets_.size()]; }
    [[nodiscard]] Bucket& at(int bucket) { return buckets_[static_cast<std::size_t>(bucket)]; }
    [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }
    [[nodiscard]] std::uint64_t started() const { return started_; }
    [[nodiscard]] std::uint64_t finished() const { return finished_; }
    // The same number on all members that are at the same position of the same plan.
    [[nodiscard]] std::uint64_t agreement() const { return epoch_ << 40 | started_; }
    [[nodiscard]] std::uint64_t epoch() const { return epoch_; }

    [[nodiscard]] bool can_run() { return active() && !busy && !frozen && head().missing == 0; }
    // Whether the next bucket waits only for tensors of this rank.
    [[nodiscard]] bool starves() { return active() && !busy && !frozen && head().missing != 0; }

    void start() {
        busy = true;
        ++started_;
    }
    void finish(bool whole) {
        busy = false;
        if (!whole) return;
        Bucket& bucket = head();
        bucket.missing = bucket.operations;
        bucket.free_bytes = 0;
        ++finished_;
    }

    bool busy = false;    // a thread runs the head
    bool frozen = false;  // the members are stopping the plan: nothing may be started

  private:
    std::vector<Bucket> buckets_;
    bool on_device_ = false;
    std::uint64_t epoch_ = 0;
    std::uint64_t started_ = 0;
    std::uint64_t finished_ = 0;
};

}  // namespace mpi_bridge
