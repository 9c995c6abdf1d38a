// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/failure.hpp"
#include "gpu/codec.hpp"
#include "gpu/device.hpp"

namespace mpi_bridge {

// Work on the memory that a rank's tensors are in, done in the order it was put here: a stream of a
// device, or, where tensors are in host memory, nothing but a place where it is done at once.
//
// note(), take(), forget(), reached(), hold(), result_memory() and copy_of() may be called from any
// thread at any time; all else by one thread at a time.
class WorkQueue {
  public:
    // A point in another stream, given back by exactly one after() or forget().
    struct Noted {
        void* event = nullptr;
    };
    // A point in this queue. They are reached in the order of their numbers. Only the youngest 1024
    // are kept apart: an older one is taken for reached when a younger one is.
    struct Mark {
        std::uint64_t number = 0;
    };

    virtual ~WorkQueue() = default;
    WorkQueue() = default;
    WorkQueue(const WorkQueue&) = delete;
    WorkQueue& operator=(const WorkQueue&) = delete;

    // Where the other stream stands now.
    [[nodiscard]] virtual Outcome<Noted> note(DeviceStream other) = 0;
    // All points that an operation starts after.
    [[nodiscard]] Outcome<std::vector<Noted>> take(const DeviceStart& start);
    // What comes into this queue later is done after that.
    [[nodiscard]] virtual Done after(Noted noted) = 0;
    virtual void forget(Noted noted) = 0;

    [[nodiscard]] virtual Outcome<Mark> mark() = 0;
    // Never blocks. Fails when the device has: nothing is ever reached then.
    [[nodiscard]] virtual Outcome<bool> reached(Mark mark) = 0;
    // What comes into the other stream later is done after the mark.
    [[nodiscard]] virtual Done hold(DeviceStream other, Mark mark) = 0;

    [[nodiscard]] virtual Done launch(Codec codec, Way way,
                                      const kernels::Arguments& arguments) = 0;
    // Between any two memories, which must not overlap. Host memory is such as host_memory() gives.
    [[nodiscard]] virtual Done copy(void* to, const void* from, std::size_t bytes) = 0;

    // Where the tensors are, and on the host, where the device can reach it fast.
    [[nodiscard]] virtual Outcome<Memory> tensor_memory(std::size_t bytes) = 0;
    [[nodiscard]] virtual Outcome<Memory> host_memory(std::size_t bytes) = 0;

    // See DeviceGroup.
    [[nodiscard]] virtual Outcome<Memory> result_memory(std::size_t bytes, DeviceStream stream) = 0;
    [[nodiscard]] virtual Outcome<Memory> copy_of(std::span<const std::byte> content) = 0;

    // This queue as a stream, for note() of another queue.
    [[nodiscard]] virtual DeviceStream stream() const = 0;
};

// Memory kept from operation to operation, which grows. What it outgrew is kept until the end,
// because freeing device memory waits for the device; as it grows by doubling, that is at most as
// much again.
class GrowingMemory {
  public:
    enum class Where { tensors, host };
    explicit GrowingMemory(Where where) : where_(where) {}

    // At least `bytes` bytes; what was there before is not kept.
    [[nodiscard]] Outcome<std::byte*> take(WorkQueue& queue, std::size_t bytes);

  private:
    Where where_;
    std::size_t bytes_ = 0;
    std::vector<Memory> blocks_;  // the last is in use
};

}  // namespace mpi_bridge
