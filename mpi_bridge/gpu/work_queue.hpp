// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "gpu/device_group.hpp"
#include "gpu/wire/codec.hpp"

namespace mpi_bridge {

// Runs work on the memory that a rank's tensors are in, in the order in which it is enqueued: as a
// stream of a device or, if tensors are in host memory, by doing everything at once.
//
// note(), take(), forget(), reached(), hold(), result_memory() and copy_of() may be called from any
// thread at any time; all other functions by one thread at a time.
class WorkQueue {
  public:
    // A point in another stream, which must be returned by exactly one after() or forget().
    struct Noted {
        void* event = nullptr;
    };
    // A point in this queue. Marks are reached in the order of their numbers. Only the latest 1024
    // are kept separately: an older one counts as reached when a later one is.
    struct Mark {
        std::uint64_t number = 0;
    };

    virtual ~WorkQueue() = default;
    WorkQueue() = default;
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    // Notes the current position of the other stream.
    [[nodiscard]] virtual Outcome<Noted> note(DeviceStream other) = 0;
    // Returns all points that an operation starts after.
    [[nodiscard]] Outcome<std::vector<Noted>> take(const DeviceStart& start);
    // Work that is enqueued here later runs after that point.
    [[nodiscard]] virtual Done after(Noted noted) = 0;
    virtual void forget(Noted noted) = 0;
    // Does after() for each point. After a failure, the rest are forgotten.
    [[nodiscard]] Done after_all(std::span<const Noted> points);

    [[nodiscard]] virtual Outcome<Mark> mark() = 0;
    // Never blocks. Fails if the device has failed, because then nothing is ever reached.
    [[nodiscard]] virtual Outcome<bool> reached(Mark mark) = 0;
    // Work that is enqueued in the other stream later runs after the mark.
    [[nodiscard]] virtual Done hold(DeviceStream other, Mark mark) = 0;

    [[nodiscard]] virtual Done launch(Codec codec, Way way,
                                      const kernels::Arguments& arguments) = 0;
    // Copies between any two memories, which must not overlap. Host memory must be from
    // host_memory().
    [[nodiscard]] virtual Done copy(void* to, const void* from, std::size_t bytes) = 0;

    // Allocate memory in the place of the tensors, and on the host, where the device can access it
    // fast.
    [[nodiscard]] virtual Outcome<Memory> tensor_memory(std::size_t bytes) = 0;
    [[nodiscard]] virtual Outcome<Memory> host_memory(std::size_t bytes) = 0;
    // Returns memory in the place of the tensors, for work that is enqueued here later. Neither
    // allocating nor freeing it waits for the device, so all work with it must have ended before it
    // is freed.
    [[nodiscard]] virtual Outcome<Memory> ordered_memory(std::size_t bytes) = 0;

    // See DeviceGroup.
    [[nodiscard]] virtual Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) = 0;
    [[nodiscard]] virtual Outcome<Memory> copy_of(std::span<const std::byte> content) = 0;

    // Returns this queue as a stream, for note() of another queue.
    [[nodiscard]] virtual DeviceStream stream() const = 0;
};

// Makes the queue of a rank whose tensors are in host memory: work is done as soon as it is
// enqueued, there are no streams, and every mark is reached.
[[nodiscard]] std::unique_ptr<WorkQueue> make_host_queue();

// Memory that is kept from operation to operation, and grows. Memory that has become too small is
// kept until the end, because freeing device memory waits for the device; the size doubles, so that
// this is at most as much again.
class GrowingMemory {
  public:
    using Allocate = std::function<Outcome<Memory>(std::size_t bytes)>;

    // Returns at least `bytes` bytes; the previous contents are lost.
    [[nodiscard]] Outcome<std::byte*> take(std::size_t bytes, const Allocate& allocate);
    // Never frees what it has: work that does not end may still use it.
    void leave();

  private:
    std::size_t bytes_ = 0;
    std::vector<Memory> blocks_;  // the last one is in use
};

}  // namespace mpi_bridge
