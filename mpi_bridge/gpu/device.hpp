// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "mpi_bridge.h"

namespace mpi_bridge {

// A CUstream, which a cudaStream_t is too; null is the legacy default stream.
struct DeviceStream {
    void* handle = nullptr;
};

// One operation of a group; later ones have higher numbers and are never done earlier.
struct DeviceTicket {
    std::uint64_t number = 0;
};

class WorkQueue;

// Memory of a device or of the host; freed with the last owner, which must have made sure that
// nothing uses it any more.
using Memory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

// A point in a caller's stream, noted by DeviceGroup::note(), whose group it must not outlive.
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

    // False: none was noted, or it was taken.
    [[nodiscard]] bool holds() const { return queue_ != nullptr; }
    // The event, which the caller must hand to the queue that made it.
    [[nodiscard]] void* take() {
        queue_ = nullptr;
        return std::exchange(event_, nullptr);
    }

  private:
    void give_back();

    WorkQueue* queue_ = nullptr;
    void* event_ = nullptr;
};

// What an operation waits for on the device: what a stream holds at the time of the call, or points
// that were noted earlier, which an operation that is enqueued takes.
class DeviceStart {
  public:
    // NOLINTNEXTLINE(google-explicit-constructor): a stream is what callers mostly have.
    DeviceStart(DeviceStream stream = {}) : stream_(stream), has_stream_(true) {}
    // NOLINTNEXTLINE(google-explicit-constructor)
    DeviceStart(std::span<DeviceNote> notes) : notes_(notes) {}

    // nullptr: the notes count.
    [[nodiscard]] const DeviceStream* stream() const { return has_stream_ ? &stream_ : nullptr; }
    [[nodiscard]] std::span<DeviceNote> notes() const { return notes_; }

  private:
    DeviceStream stream_;
    bool has_stream_ = false;
    std::span<DeviceNote> notes_;
};

// One tensor: `count` elements, aligned as its type needs. recv may be send; otherwise the two must
// not overlap, nor any two parts of a call.
struct DevicePart {
    const void* send = nullptr;
    void* recv = nullptr;
    std::size_t count = 0;
};

// Which 16-bit type 32-bit floats travel as.
enum class Compression { none, float16, bfloat16 };

// Every element is multiplied by prescale, reduced over all ranks and multiplied by postscale.
struct DeviceReduction {
    mpib_datatype datatype = MPIB_FLOAT32;
    mpib_op op = MPIB_SUM;
    double prescale = 1;
    double postscale = 1;
    Compression compression = Compression::none;  // FLOAT32 under SUM and AVERAGE only
};

// Collectives on host memory among the ranks of the group, for the host-staged path. Called by the
// group's own thread, one at a time and in the same order on every rank; each call returns when
// this rank's part is done, within the caller's own deadlines.
struct HostCollectives {
    std::function<Done(std::byte* data, std::size_t count, mpib_datatype, mpib_op)> allreduce;
    std::function<Done(std::span<std::byte> data, int root)> broadcast;
    // parts[r] is where rank r's contribution belongs; the own one is in place.
    std::function<Done(std::span<const std::span<std::byte>> parts)> allgather;
    std::function<Done(const std::byte* send, std::byte* recv, std::span<const std::size_t> counts,
                       mpib_datatype, mpib_op)>
        reduce_scatter;
    std::function<Done(std::span<const std::span<const std::byte>> out,
                       std::span<const std::span<std::byte>> in)>
        alltoall;
};

// automatic: NCCL where it can serve every rank, else host-staged. The same on all ranks.
enum class DevicePath { automatic, nccl, staged, ucx };

struct DeviceGroupOptions {
    std::string name;  // for messages: "process set 0"
    int rank = 0;      // in the group
    int size = 1;
    // CUDA's ordinal of this rank's device; -1 where this rank's tensors are in host memory, which
    // the host-staged path serves beside ranks with a device.
    int device = -1;
    DevicePath path = DevicePath::automatic;

    // The control plane, used in open() only; collective over the ranks of the group.
    // Rank 0's bytes are given to all.
    std::function<Done(std::span<std::byte>)> broadcast_from_first;
    // own is the same length on all ranks; all has size times that, in the order of ranks.
    std::function<Done(std::span<const std::byte> own, std::span<std::byte> all)> allgather;

    HostCollectives host;
    // How long open(), one call's enqueueing and one step of the host-staged path may take.
    Seconds patience{300};
    std::size_t chunk_bytes = std::size_t{4} << 20;  // of the host-staged path; same on all ranks
};

// The ordinal of the device that the memory is on, -1 for host memory. Host memory where there is
// no CUDA driver.
[[nodiscard]] Outcome<int> device_of(const void* memory);

// The ordinal of the device that is current on this thread; -1 where none is.
[[nodiscard]] int current_device();

// The collectives of one process set on this rank's device, in the order of calls, which must be
// the same on all ranks with agreeing arguments: nothing here checks that.
//
// A call waits, on the device, for what DeviceStart says, and returns as soon as its work is
// enqueued; completion is an event. Memory belongs to the caller and must be
// left alone until the operation is done. Over NCCL a call returns within microseconds, but the
// first of a kind makes connections, bounded by `patience`. On the host-staged path a call returns
// at once and a thread of the group does the rest.
//
// Any thread may call any function. After the first failure every function fails with the same
// text, and the caller must make the other ranks abort() as well: NCCL has no message for them.
class DeviceGroup {
  public:
    // Collective. Exchanges which rank has which GPU, chooses the path and connects. Where one rank
    // fails, all do, unless it is the control plane that fails. A text of failure says which rank
    // could not do what, and what to install or to set.
    [[nodiscard]] static Outcome<std::unique_ptr<DeviceGroup>> open(DeviceGroupOptions options);

    // What is not done is aborted; close() first to part in good order.
    virtual ~DeviceGroup() = default;
    DeviceGroup() = default;
    DeviceGroup(const DeviceGroup&) = delete;
    DeviceGroup& operator=(const DeviceGroup&) = delete;

    // Which path and why: "NCCL 2.28.9" or "host-staged: ranks 0 and 1 share one GPU".
    [[nodiscard]] virtual std::string describe() const = 0;
    // nccl or staged.
    [[nodiscard]] virtual DevicePath path() const = 0;

    // Where the stream stands now. Waits for nothing, but for room in the stream.
    [[nodiscard]] virtual Outcome<DeviceNote> note(DeviceStream stream) = 0;

    // Memory for a result, where this rank's tensors are: usable by what is put into the stream
    // later, and by operations that start after that. It is given back in the order of the stream
    // too, which must then still exist.
    [[nodiscard]] virtual Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) = 0;
    // Memory where this rank's tensors are, with this content. Waits for the copy.
    [[nodiscard]] virtual Outcome<Memory> copy_of(std::span<const std::byte> content) = 0;

    // Many tensors as one bucket, packed, converted and scaled in one launch each way. One tensor
    // alone is reduced where it is, without a bucket, unless it must be converted.
    //
    // Integers under AVERAGE are the exact sum divided by the number of ranks, toward zero. MIN and
    // MAX of floats give NaN where any rank has one. Over NCCL, floats of 16 bits are summed in 16
    // bits, rounded at each step; the power of two in a factor below 1 is applied before the sum so
    // that an average does not overflow.
    [[nodiscard]] virtual Outcome<DeviceTicket> allreduce(std::span<const DevicePart> parts,
                                                          const DeviceReduction& reduction,
                                                          const DeviceStart& start) = 0;
    [[nodiscard]] Outcome<DeviceTicket> allreduce(std::span<const DevicePart> parts,
                                                  mpib_datatype datatype, mpib_op op,
                                                  double prescale, double postscale,
                                                  const DeviceStart& start) {
        return allreduce(parts, {datatype, op, prescale, postscale, Compression::none}, start);
    }

    // counts[r] elements of the result go to rank r.
    [[nodiscard]] virtual Outcome<DeviceTicket> reduce_scatter(const void* send, void* recv,
                                                               std::span<const std::size_t> counts,
                                                               const DeviceReduction& reduction,
                                                               const DeviceStart& start) = 0;

    // Bytes. parts[i].send is read on the root only, parts[i].recv written on all.
    [[nodiscard]] virtual Outcome<DeviceTicket> broadcast(std::span<const DevicePart> parts,
                                                          int root, const DeviceStart& start) = 0;

    // lengths[r] bytes of rank r, packed in the order of ranks in recv. send may be its own place.
    [[nodiscard]] virtual Outcome<DeviceTicket> allgather(const void* send, void* recv,
                                                          std::span<const std::size_t> lengths,
                                                          const DeviceStart& start) = 0;

    // Bytes to and from each rank, packed in the order of ranks.
    [[nodiscard]] virtual Outcome<DeviceTicket> alltoall(const void* send,
                                                         std::span<const std::size_t> send_lengths,
                                                         void* recv,
                                                         std::span<const std::size_t> recv_lengths,
                                                         const DeviceStart& start) = 0;

    // Whether the operation is done; also how an error of the communicator becomes known, so poll
    // while waiting. Waits for nothing on the device, but for a call of another thread.
    [[nodiscard]] virtual Outcome<bool> poll(const DeviceTicket& ticket) = 0;

    // What is put into the stream after this call runs when the operation is done. Over NCCL the
    // host does not wait; on the host-staged path the calling thread waits until the result is on
    // its way back to the device, because no event stands for it earlier. When that takes longer
    // than `longest`, MPIB_ERROR_TIMEOUT is returned, and the operation goes on.
    [[nodiscard]] virtual Done make_stream_wait(const DeviceTicket& ticket, DeviceStream stream,
                                                Seconds longest) = 0;

    // Collective: finishes what was enqueued, as far as that is possible before the deadline, and
    // disconnects. Every later call fails.
    [[nodiscard]] virtual Done close(Deadline deadline) = 0;

    // Ends what is under way on this rank; every later call fails. From any thread at any time.
    virtual void abort() = 0;
};

}  // namespace mpi_bridge
