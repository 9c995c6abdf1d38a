// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "mpi_bridge.h"

// Collectives on tensors in device memory.
//
//   device_group.hpp    the interface, and how a group is opened
//   placement.hpp       chooses between NCCL and host memory, in the same way on all ranks
//   bucket.hpp          where each tensor is in a bucket, and the kernel launches that move it
//   work_queue.hpp      an ordered queue of work: a stream of a device, or the host at once
//   shared_library.hpp  finds and opens the libraries of other vendors at run time
//   cuda/               the CUDA driver, a device, its streams, and the library's kernels
//   nccl/               the group in which every rank has a GPU that NCCL can use
//   staged/             the group that goes through host memory
//   wire/               how elements are converted for a reduction, and what NCCL then reduces
namespace mpi_bridge {

// A CUstream, which is the same type as cudaStream_t; null is the legacy default stream.
struct DeviceStream {
    void* handle = nullptr;
};

// One operation of a group. A later operation has a higher number and never finishes earlier.
struct DeviceTicket {
    std::uint64_t number = 0;
};

class WorkQueue;

// Memory of a device or of the host, which is freed with its last owner. The owner must ensure that
// nothing uses it any more.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// A point in a caller's stream, noted by DeviceGroup::note(). It must not outlive that group.
class DeviceNote {
  public:
    DeviceNote() = default;
    DeviceNote(WorkQueue& queue, void* event) : queue_(&queue), event_(event) {}
    ~DeviceNote() { give_back(); }
    DeviceNote(DeviceNote&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr)),
          event_(std::exchange(other.event_, nullptr)) {}
    DeviceNote& operator=(DeviceNote&& other) noexcept {
        give_back();
        queue_ = std::exchange(other.queue_, nullptr);
        event_ = std::exchange(other.event_, nullptr);
        return *this;
    }
    DeviceNote(const DeviceNote&) = delete;
    DeviceNote& operator=(const DeviceNote&) = delete;

    // False if no point was noted, or if it was taken.
    [[nodiscard]] bool holds() const { return queue_ != nullptr; }
    // Returns the event, which the caller must pass to the queue that made it.
    [[nodiscard]] void* take() {
        queue_ = nullptr;
        return std::exchange(event_, nullptr);
    }

  private:
    void give_back();

    WorkQueue* queue_ = nullptr;
    void* event_ = nullptr;
};

// What an operation waits for on the device: the contents of a stream at the time of the call, or
// points that were noted earlier. An operation takes the points when it is enqueued.
class DeviceStart {
  public:
    // NOLINTNEXTLINE(google-explicit-constructor): most callers have a stream.
    DeviceStart(DeviceStream stream = {}) : stream_(stream), has_stream_(true) {}
    // NOLINTNEXTLINE(google-explicit-constructor)
    DeviceStart(std::span<DeviceNote> notes) : notes_(notes) {}

    // nullptr means that the notes are used.
    [[nodiscard]] const DeviceStream* stream() const { return has_stream_ ? &stream_ : nullptr; }
    [[nodiscard]] std::span<DeviceNote> notes() const { return notes_; }

  private:
    DeviceStream stream_;
    bool has_stream_ = false;
    std::span<DeviceNote> notes_;
};

// One tensor: `count` elements, aligned as its type needs. recv may be send; otherwise the two must
// not overlap, and no two parts of a call may overlap.
struct DevicePart {
    const void* send = nullptr;
    void* recv = nullptr;
    std::size_t count = 0;
};

// Every element is multiplied by prescale, reduced over all ranks and multiplied by postscale.
struct DeviceReduction {
    mpib_datatype datatype = MPIB_FLOAT32;
    mpib_op op = MPIB_SUM;
    double prescale = 1;
    double postscale = 1;
};

// Collectives on host memory among the ranks of the group, for the host-staged path. The group's
// own thread calls them, one at a time and in the same order on every rank. Each call returns when
// this rank's part is done, within the deadlines of its implementation.
struct HostCollectives {
    std::function<Done(std::byte* data, std::size_t count, mpib_datatype, mpib_op)> allreduce;
    std::function<Done(std::span<std::byte> data, int root)> broadcast;
    // parts[r] is where rank r's contribution belongs; this rank's own part is already in place.
    std::function<Done(std::span<const std::span<std::byte>> parts)> allgather;
    std::function<Done(const std::byte* send, std::byte* recv, std::span<const std::size_t> counts,
                       mpib_datatype, mpib_op)>
        reduce_scatter;
    std::function<Done(std::span<const std::span<const std::byte>> out,
                       std::span<const std::span<std::byte>> in)>
        alltoall;
};

// automatic uses NCCL if it can serve every rank, otherwise the host-staged path. Must be the same
// on all ranks.
enum class DevicePath { automatic, nccl, staged, ucx };

struct DeviceGroupOptions {
    std::string name;  // for messages: "process set 0"
    int rank = 0;      // in the group
    int size = 1;
    // CUDA's ordinal of this rank's device; -1 if this rank's tensors are in host memory, which the
    // host-staged path supports alongside ranks with a device.
    int device = -1;
    DevicePath path = DevicePath::automatic;

    // The control plane, which only open() uses; its calls are collective over the ranks of the
    // group. broadcast_from_first gives rank 0's bytes to all ranks.
    std::function<Done(std::span<std::byte>)> broadcast_from_first;
    // own has the same length on all ranks; all has size times that length, in the order of ranks.
    std::function<Done(std::span<const std::byte> own, std::span<std::byte> all)> allgather;

    // Fails when open() is to give up, because this process has failed; open() asks while it waits
    // for other ranks on the device. Any thread may call it; may be empty.
    std::function<Done()> watch;

    HostCollectives host;
    // The limit for open(), for enqueueing one call, and for one step of the host-staged path.
    Seconds patience = no_limit;
    std::size_t chunk_bytes = std::size_t{4} << 20;  // for the host-staged path; same on all ranks
};

// Collective: passes this rank's outcome of a step to all ranks, through the control plane of these
// options. If the step has failed on any rank, all get the failure of the first such rank.
[[nodiscard]] Done agree_on(const DeviceGroupOptions& options, const Done& own);

// Returns the ordinal of the device that the memory is on, or -1 for host memory. Without a CUDA
// driver, all memory is host memory.
[[nodiscard]] Outcome<int> device_of(const void* memory);

// Whether work for the stream is being captured into a CUDA graph. Needs a CUDA driver, unless the
// stream is the legacy default stream.
[[nodiscard]] Outcome<bool> is_captured(DeviceStream stream);

// Returns the ordinal of the current device of this thread, or -1 if there is none. Nothing is
// loaded for it.
[[nodiscard]] int current_device();

// Returns how many devices this process sees, 0 without a CUDA driver. Initialises CUDA.
[[nodiscard]] int device_count();

// The collectives of one process set on this rank's device, in the order of calls. The order and
// the arguments must match on all ranks; nothing here checks that.
//
// On the device, a call waits for what DeviceStart says. It returns as soon as its work is
// enqueued; an event signals its completion. Memory belongs to the caller and must not be touched
// until the operation is done. Over NCCL a call returns within microseconds, except that the first
// of a kind makes connections, limited by `patience`. On the host-staged path a call returns at
// once, and a thread of the group does the rest.
//
// Any thread may call any function. After the first failure every function fails with the same
// text, and the caller must abandon the groups of the other ranks too, because NCCL does not tell
// them.
class DeviceGroup {
  public:
    // Collective. Exchanges which rank has which GPU, chooses the path and connects. If one rank
    // fails, all do, unless the control plane itself fails. The text of a failure says which rank
    // could not do what, and what to install or to set.
    [[nodiscard]] static Outcome<std::unique_ptr<DeviceGroup>> open(DeviceGroupOptions options);

    // Ends unfinished work; call close() first to disconnect in good order.
    virtual ~DeviceGroup() = default;
    DeviceGroup() = default;
    DeviceGroup(const DeviceGroup&) = delete;
    DeviceGroup& operator=(const DeviceGroup&) = delete;

    // Describes the path and the reason for it: "NCCL 2.28.9" or "host-staged: ranks 0 and 1 share
    // one GPU".
    [[nodiscard]] virtual std::string describe() const = 0;
    // Returns nccl or staged.
    [[nodiscard]] virtual DevicePath path() const = 0;
    // Returns the stream in which all operations wait for other ranks; it exists as long as the
    // group. Empty if no operation waits for other ranks on the device.
    [[nodiscard]] virtual std::optional<DeviceStream> stream() const = 0;

    // Notes the current position of the stream. Does not wait, except for room in the stream.
    [[nodiscard]] virtual Outcome<DeviceNote> note(DeviceStream stream) = 0;

    // Returns memory for a result, in the place of this rank's tensors. Work that is put into the
    // stream later may use it, and so may operations that start after that. It is freed in stream
    // order too, so the stream must still exist then.
    [[nodiscard]] virtual Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) = 0;
    // Returns memory with this content, in the place of this rank's tensors, for operations that
    // begin after this call.
    [[nodiscard]] virtual Outcome<Memory> copy_of(std::span<const std::byte> content) = 0;

    // Reduces many tensors as one bucket, which is packed, converted and scaled in one launch each
    // way. A single tensor is reduced in place, without a bucket, unless it must be converted.
    //
    // For integers, AVERAGE is the exact sum divided by the number of ranks, truncated toward zero.
    // MIN and MAX of floats give NaN if any rank has one. Over NCCL, 16-bit floats are summed in 16
    // bits and rounded at each step; the power of two in a factor below 1 is applied before the
    // sum, so that an average does not overflow.
    [[nodiscard]] virtual Outcome<DeviceTicket> allreduce(std::span<const DevicePart> parts,
                                                          const DeviceReduction& reduction,
                                                          const DeviceStart& start) = 0;

    // counts[r] elements of the result go to rank r.
    [[nodiscard]] virtual Outcome<DeviceTicket> reduce_scatter(const void* send, void* recv,
                                                               std::span<const std::size_t> counts,
                                                               const DeviceReduction& reduction,
                                                               const DeviceStart& start) = 0;

    // Works on bytes. parts[i].send is read on the root only; parts[i].recv is written on all
    // ranks.
    [[nodiscard]] virtual Outcome<DeviceTicket> broadcast(std::span<const DevicePart> parts,
                                                          int root, const DeviceStart& start) = 0;

    // Gathers lengths[r] bytes of rank r, packed in recv in the order of ranks. send may be this
    // rank's place in recv.
    [[nodiscard]] virtual Outcome<DeviceTicket> allgather(const void* send, void* recv,
                                                          std::span<const std::size_t> lengths,
                                                          const DeviceStart& start) = 0;

    // Exchanges bytes with each rank, packed in the order of ranks.
    [[nodiscard]] virtual Outcome<DeviceTicket> alltoall(const void* send,
                                                         std::span<const std::size_t> send_lengths,
                                                         void* recv,
                                                         std::span<const std::size_t> recv_lengths,
                                                         const DeviceStart& start) = 0;

    // Whether the operation is done. This also detects errors of the communicator, so poll while
    // you wait. Does not wait for the device, but possibly for a call of another thread.
    [[nodiscard]] virtual Outcome<bool> poll(const DeviceTicket& ticket) = 0;

    // Work that is put into the stream after this call runs when the operation is done. Over NCCL
    // the host does not wait. On the host-staged path the calling thread waits until the result is
    // on its way back to the device, because there is no event for it earlier. If that takes longer
    // than `longest`, MPIB_ERROR_TIMEOUT is returned, and the operation goes on.
    [[nodiscard]] virtual Done make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                                Seconds longest) = 0;

    // Collective: finishes the enqueued work, as far as that is possible before the deadline, and
    // disconnects. Every later call fails.
    [[nodiscard]] virtual Done close(Deadline deadline) = 0;

    // Begins to end every wait and the work in flight on this rank; they and every later call fail
    // with this cause, unless the group has failed already.
    virtual void abandon(const Failure& cause) = 0;
    // Waits until the work in flight has ended and uses no memory any more, or for some seconds, as
    // it may be behind work of the callers. All groups on the device must be abandoned before,
    // because NCCL waits for the whole device.
    virtual void await_abandoned() {}
};

}  // namespace mpi_bridge
