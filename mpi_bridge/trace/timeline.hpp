// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

#include <sys/types.h>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "trace/activity.hpp"
#include "trace/event_queue.hpp"

namespace mpi_bridge {

// The timeline of one rank: a file PATH.RANK.json in Chrome's trace format, with a row per tensor.
//
// Any thread may call any function. While no timeline is written, an event costs one relaxed load.
// While one is, an event costs a time stamp and a copy under a lock that is never held across a
// system call; a writer thread formats and writes, at least five times a second. There is one lock
// for all threads, not a ring for each, because this gives the events one order: the file needs no
// sorting, and an activity may begin on one thread and end on another.
//
// If events come faster than they can be written for long, some are dropped; the file and, once,
// standard error say how many. A dropped beginning or end never breaks the nesting of a row.
//
// The file is complete JSON after each write. A process that is killed in the middle of a write
// leaves a torn last line, which viewers and mpi_bridge_timeline skip. A killed process loses what
// it recorded in its last fifth of a second.
class Timeline {
  public:
    Timeline();
    ~Timeline();  // stops; failures are lost
    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;

    // Fails with MPIB_ERROR_INVALID_ARGUMENT when a timeline is being written or the file cannot be
    // created; the text names the file and the system's reason. An existing file is overwritten.
    [[nodiscard]] Done start(std::string_view path, int rank, int size);

    // Writes what has been recorded and completes the file. Succeeds when none is being written.
    // Fails with MPIB_ERROR_INTERNAL when the file could not be written, now or earlier; what was
    // written before is complete. In a child made by fork() it only forgets the timeline.
    [[nodiscard]] Done stop();

    // For callers that have to prepare data for an event.
    [[nodiscard]] bool on() const noexcept { return on_.load(std::memory_order_relaxed); }

    // The activities of a row nest: the one that began last ends first. When an activity ends, what
    // is still open inside it ends too. An end without a beginning is ignored. Phase::negotiate and
    // Phase::operation are outermost: beginning one ends everything that the row has open.
    void begin(const Activity& activity, const Details& details = {}) noexcept {
        if (on()) record_begin(activity, details);
    }
    void end(const Activity& activity, bool ok = true) noexcept {
        if (on()) record_end(activity, ok);
    }
    // Inside Phase::negotiate: rank (a global one) has reported this tensor.
    void tick(const Activity& activity, int rank) noexcept {
        if (on()) record_tick(activity, rank);
    }
    // Something that happened to the engine as a whole, such as "plan made". May hold any bytes.
    void mark(std::string_view text, const Details& details = {}) noexcept {
        if (on()) record_mark(text, details);
    }
    // An activity that was measured elsewhere, such as on a GPU, and is reported afterwards. Its
    // times are of Clock, and its row, "... (device)", is separate from the tensor's. The
    // activities of one such row must not overlap.
    void device(const Activity& activity, Clock::time_point start,
                std::chrono::nanoseconds duration, const Details& details = {}) noexcept {
        if (on()) record_device(activity, start, duration, details);
    }

  private:
    class Writer;

    void record_begin(const Activity& activity, const Details& details) noexcept;
    void record_end(const Activity& activity, bool ok) noexcept;
    void record_tick(const Activity& activity, int rank) noexcept;
    void record_mark(std::string_view text, const Details& details) noexcept;
    void record_device(const Activity& activity, Clock::time_point start,
                       std::chrono::nanoseconds duration, const Details& details) noexcept;

    std::atomic<bool> on_{false};
    EventQueue queue_;
    std::mutex control_;              // start() and stop(), one at a time
    std::unique_ptr<Writer> writer_;  // exists while a timeline is written
    std::atomic<pid_t> owner_{0};     // the process whose thread writes
};

}  // namespace mpi_bridge
