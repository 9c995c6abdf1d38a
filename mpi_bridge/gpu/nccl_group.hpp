// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "gpu/cuda_queue.hpp"
#include "gpu/device_group.hpp"
#include "gpu/nccl_communicator.hpp"
#include "gpu/wire_plan.hpp"

namespace mpi_bridge {

// A group in which every rank has a GPU that NCCL can use. All work goes through one stream, so
// that the memory of one bucket serves all operations.
class NcclGroup final : public DeviceGroup {
  public:
    [[nodiscard]] static Outcome<std::unique_ptr<DeviceGroup>> open(
        const nccl::Library& nccl, CudaDevice& device, const DeviceGroupOptions& options);

    [[nodiscard]] std::string describe() const override;
    [[nodiscard]] DevicePath path() const override { return DevicePath::nccl; }
    [[nodiscard]] std::optional<DeviceStream> stream() const override { return queue_->stream(); }
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

  private:
    NcclGroup(const nccl::Library& nccl, int rank, int size)
        : nccl_(nccl), rank_(rank), size_(size) {}

    using Body = std::function<Done()>;
    // `body` enqueues the work, which runs after `start`. If it fails, the group is abandoned.
    [[nodiscard]] Outcome<DeviceTicket> enqueue(const DeviceStart& start, const Body& body);
    [[nodiscard]] Done reduce_bucket(std::span<const DevicePart> parts, const WirePlan& plan);
    [[nodiscard]] Done reduce_one(const DevicePart& part, const WirePlan& plan);
    [[nodiscard]] Done scatter_sum(const std::byte* send, std::byte* recv,
                                   std::span<const std::size_t> counts, const WirePlan& plan);
    [[nodiscard]] Done scatter_bucket(const DevicePart& whole, void* recv,
                                      std::span<const std::size_t> counts, const WirePlan& plan);
    // Creates the operation of the plan, lets `body` use it, and frees it.
    [[nodiscard]] Done with_op(const WirePlan& plan, const std::function<Done(nccl::RedOp)>& body);
    [[nodiscard]] cuda::Stream cuda_stream() const;

    const nccl::Library& nccl_;
    const int rank_;
    const int size_;

    std::mutex mutex_;
    std::unique_ptr<CudaQueue> queue_;
    GrowingMemory bucket_{GrowingMemory::Where::tensors};
    std::unique_ptr<NcclCommunicator> communicator_;  // must end before the memory that it works on
};

}  // namespace mpi_bridge
