// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>

#include "gpu/cuda/queue.hpp"
#include "gpu/device_group.hpp"
#include "gpu/nccl/communicator.hpp"
#include "gpu/wire/format.hpp"

namespace mpi_bridge {

// A group in which every rank has a GPU that NCCL can use. NCCL's kernels run in one stream, in the
// order of the calls. A bucket is packed in a second stream and unpacked in a third one, and two of
// them take turns, so that one is packed or unpacked while the other one is reduced. All operations
// end in that third stream.
class NcclGroup final : public DeviceGroup {
  public:
    [[nodiscard]] static Outcome<std::unique_ptr<DeviceGroup>> open(
        const nccl::Library& nccl, CudaDevice& device, const DeviceGroupOptions& options);

    [[nodiscard]] std::string describe() const override;
    [[nodiscard]] DevicePath path() const override { return DevicePath::nccl; }
    [[nodiscard]] std::optional<DeviceStream> stream() const override {
        return reducing_->stream();
    }
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
    void await_abandoned() override;

    ~NcclGroup() override;

  private:
    NcclGroup(const nccl::Library& nccl, int rank, int size)
        : nccl_(nccl), rank_(rank), size_(size) {}

    // The memory of a bucket, and the point of unpacking_ from which on it may be packed again.
    struct Slot {
        GrowingMemory memory;
        WorkQueue::Mark free;
    };
    using Body = std::function<Done()>;
    // `body` enqueues work in reducing_, which runs after `start`. If it fails, the group is
    // abandoned.
    [[nodiscard]] Outcome<DeviceTicket> enqueue(const DeviceStart& start, const Body& body);
    // Does the same around `body`: packs tensors into a bucket before it, and unpacks after it what
    // the bucket has from `unpacked_at` on.
    using BucketBody = std::function<Done(std::byte* bucket)>;
    struct Bucket {
        const WireFormat& format;
        std::span<const DevicePart> packed;
        std::span<const DevicePart> unpacked;
        std::size_t unpacked_at = 0;  // in bytes
    };
    [[nodiscard]] Outcome<DeviceTicket> enqueue(const DeviceStart& start, const Bucket& bucket,
                                                const BucketBody& body);
    // Returns the point of unpacking_ where the work ends.
    using Work = std::function<Outcome<WorkQueue::Mark>(std::span<const WorkQueue::Noted> ready)>;
    [[nodiscard]] Outcome<DeviceTicket> enqueue_work(const DeviceStart& start, const Work& work);
    [[nodiscard]] Done reduce_one(const DevicePart& part, const WireFormat& format);
    [[nodiscard]] Done scatter_sum(const std::byte* send, std::byte* recv,
                                   std::span<const std::size_t> counts, const WireFormat& format);
    // Creates the operation of the format, lets `body` use it, and frees it.
    [[nodiscard]] Done with_op(const WireFormat& format,
                               const std::function<Done(nccl::RedOp)>& body);
    [[nodiscard]] cuda::Stream cuda_stream() const;
    // Waits until all enqueued work has ended, or has failed; false: it has not by the deadline.
    [[nodiscard]] bool is_idle(Deadline deadline) const;

    const nccl::Library& nccl_;
    const int rank_;
    const int size_;

    std::mutex mutex_;
    std::unique_ptr<CudaQueue> packing_;
    std::unique_ptr<CudaQueue> reducing_;
    std::unique_ptr<CudaQueue> unpacking_;
    std::array<Slot, 2> slots_;
    std::size_t next_slot_ = 0;
    std::unique_ptr<NcclCommunicator> communicator_;  // must end before the memory that it works on
};

}  // namespace mpi_bridge
