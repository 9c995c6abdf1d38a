// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/device_group.hpp"
#include "gpu/staged/staging.hpp"
#include "gpu/wire/format.hpp"
#include "gpu/work_queue.hpp"

namespace mpi_bridge {

// A group that goes through host memory, for ranks that share a GPU, and for groups in which some
// ranks have none. A thread of the group runs one operation after the other; ranks with a device
// and ranks without one make the same calls of HostCollectives, chunk by chunk.
class StagedGroup final : public DeviceGroup {
  public:
    // Both queues are of the same kind: two streams of a device, or two host queues.
    StagedGroup(DeviceGroupOptions options, std::string why, std::unique_ptr<WorkQueue> outbound,
                std::unique_ptr<WorkQueue> inbound);
    ~StagedGroup() override;

    // Allocates pinned memory, so that no operation waits for that. Must come before the first one.
    [[nodiscard]] Done prepare() { return staging_.prepare_slots(); }

    [[nodiscard]] std::string describe() const override;
    [[nodiscard]] DevicePath path() const override { return DevicePath::staged; }
    [[nodiscard]] std::optional<DeviceStream> stream() const override { return std::nullopt; }
    [[nodiscard]] Outcome<DeviceNote> note(DeviceStream stream) override;
    [[nodiscard]] Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) override;
    [[nodiscard]] Outcome<Memory> copy_of(std::span<const std::byte> content) override;
    [[nodiscard]] Outcome<DeviceTicket> allreduce(std::span<const DevicePart> parts,
                                                  const DeviceReduction& reduction,
                                                  const DeviceStart& start) override;
    [[nodiscard]] Outcome<DeviceTicket> reduce_scatter(const void* send, void* recv,
                                                       std::span<const std::size_t> counts,
                                                       const DeviceReduction& reduction,
                                                       const DeviceStart& start) override;
    [[nodiscard]] Outcome<DeviceTicket> broadcast(std::span<const DevicePart> parts, int root,
                                                  const DeviceStart& start) override;
    [[nodiscard]] Outcome<DeviceTicket> allgather(const void* send, void* recv,
                                                  std::span<const std::size_t> lengths,
                                                  const DeviceStart& start) override;
    [[nodiscard]] Outcome<DeviceTicket> alltoall(const void* send,
                                                 std::span<const std::size_t> send_lengths,
                                                 void* recv,
                                                 std::span<const std::size_t> recv_lengths,
                                                 const DeviceStart& start) override;
    [[nodiscard]] Outcome<bool> poll(const DeviceTicket& ticket) override;
    [[nodiscard]] Done make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                        Seconds longest) override;
    [[nodiscard]] Done close(Deadline deadline) override;
    void abandon(const Failure& cause) override;

  private:
    using Lock = std::unique_lock<std::mutex>;
    using Work = std::function<Done()>;
    struct Job {
        std::vector<WorkQueue::Noted> ready;
        Work work;
    };
    static constexpr std::size_t marks_kept = 1024;

    [[nodiscard]] Outcome<DeviceTicket> submit(const DeviceStart& start, Work work);
    void serve();
    [[nodiscard]] Done perform(const Job& job);
    void abandon(const Lock& lock, const Failure& cause);
    [[nodiscard]] Done usable() const;  // requires the mutex

    // These run on the group's thread.
    [[nodiscard]] Done reduce(std::span<const DevicePart> parts, const StagedFormat& format,
                              mpib_op op);
    [[nodiscard]] Done scatter(const DevicePart& whole, void* recv,
                               std::span<const std::size_t> counts, const StagedFormat& format,
                               mpib_op op);
    [[nodiscard]] Done spread(std::span<const DevicePart> parts, int root);
    [[nodiscard]] Outcome<std::byte*> take_bucket(std::size_t bytes);
    [[nodiscard]] Done move(std::span<const DevicePart> parts, Codec codec, Way way,
                            std::byte* bucket, double factor);

    const DeviceGroupOptions options_;
    const std::string why_;
    std::unique_ptr<WorkQueue> outbound_;
    std::unique_ptr<WorkQueue> inbound_;
    std::atomic<bool> abandoned_{false};  // for Staging
    Staging staging_;
    GrowingMemory bucket_;

    mutable std::mutex mutex_;  // guards the members below
    std::condition_variable changed_;
    std::deque<Job> jobs_;
    std::optional<Failure> broken_;
    bool working_ = false;  // the thread is running an operation
    std::uint64_t submitted_ = 0;
    std::uint64_t enqueued_ = 0;  // operations whose end is enqueued in the inbound queue
    // The mark of operation n is at n % marks_kept; a later mark replaces an older one.
    std::array<WorkQueue::Mark, marks_kept> marks_{};
    std::thread thread_;
};

}  // namespace mpi_bridge
