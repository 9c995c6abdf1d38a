// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "engine/execute/own_device.hpp"
#include "engine/execute/total_order.hpp"
#include "gpu/device_group.hpp"

namespace mpi_bridge {

// Puts the work of all process sets on this process's device in an order that all ranks agree on.
//
// Two collectives that run on the same devices at once can block each other for ever: each waits on
// one device for a peer whose device is busy waiting in the other. Within a process set the rounds
// and the plan keep one order (round.hpp). Between process sets the members agree on each
// operation's place by an allreduce of one word (total_order.hpp), and on the device an operation
// begins after the one that was enqueued before it. Until a process set is added to the world,
// none of this is needed and no message is sent.
//
// Any thread may call any function, except where noted.
class DeviceExecutor {
  public:
    // The right to enqueue one operation, until it is destroyed.
    class Turn {
      public:
        Turn() = default;
        Turn(DeviceExecutor& executor, int process_set)
            : executor_(&executor), process_set_(process_set) {}
        ~Turn();
        Turn(Turn&& other) noexcept;
        Turn& operator=(Turn&&) = delete;
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        DeviceExecutor* executor_ = nullptr;
        int process_set_ = 0;
    };

    // Returns the largest number that a member passes. Collective in a process set.
    using Largest = std::function<Outcome<TotalOrder::Time>(TotalOrder::Time own)>;
    // How soon a failure on the device is noticed when no thread polls.
    static constexpr Seconds between_looks{0.05};
    // Returns the failure of the set's work in flight. Called at these intervals, without any lock.
    using Watch = std::function<Done()>;

    DeviceExecutor() = default;
    DeviceExecutor(const DeviceExecutor&) = delete;
    DeviceExecutor& operator=(const DeviceExecutor&) = delete;

    // From now on, the world may not be the only process set. All ranks must call this between the
    // same two of the world's operations on device memory.
    void expect_several_sets() { several_sets_ = true; }

    // Waits for the turn of an operation that all members of the process set have submitted. Every
    // member must call this for the same operations of the set, in the same order, and a set has
    // only one turn at a time.
    [[nodiscard]] Outcome<Turn> take_turn(int process_set, const Largest& largest,
                                          const Watch& watch);

    // These require the turn. follow_others() adds to `notes` what an operation of this group must
    // wait for on the device: the work that another group has enqueued before. enqueued() reports
    // that the group has put an operation on the device, where the next one follows it. The group
    // must live as long as the executor is used.
    [[nodiscard]] Done follow_others(DeviceGroup& group, int device,
                                     std::vector<DeviceNote>& notes) const;
    void enqueued(DeviceGroup& group, int device);

    // Makes all calls that wait, and all later ones, fail.
    void abandon(const Failure& cause);

    // The device of this process, as far as it is known.
    [[nodiscard]] OwnDevice& own_device() { return own_device_; }

  private:
    [[nodiscard]] TotalOrder::Time propose(int process_set);
    [[nodiscard]] Done await_turn(int process_set, TotalOrder::Time agreed, const Watch& watch);
    void finish(int process_set);

    OwnDevice own_device_;
    std::atomic<bool> several_sets_{false};
    std::mutex mutex_;
    std::condition_variable changed_;
    TotalOrder order_;
    std::optional<Failure> failure_;
    // By device: the group that has enqueued last. Used by whoever has the turn, without the mutex,
    // because to note the position of a full stream takes until its work goes on.
    std::map<int, DeviceGroup*> latest_;
};

}  // namespace mpi_bridge
