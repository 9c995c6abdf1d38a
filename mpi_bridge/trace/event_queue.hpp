// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <type_traits>

#include "core/deadline.hpp"
#include "trace/activity.hpp"

namespace mpi_bridge {

enum class EventType : std::uint8_t { begin, end, tick, mark, device };

// One event of a timeline. `text` is the tensor's name, or the text of a mark.
struct Event {
    EventType type = EventType::mark;
    Phase phase = Phase::operation;
    bool ok = true;  // end
    mpib_kind kind = MPIB_ALLREDUCE;
    int rank = -1;  // tick
    int process_set = MPIB_WORLD;
    Clock::time_point time;
    std::chrono::nanoseconds duration{0};  // device
    Details details;
    std::string_view text;
};

// Carries events from any number of threads to one that writes them. Its size is bounded: events
// that do not fit are counted and dropped. Events leave in the order of their times, which push()
// assigns, except that device events bring their own.
//
// There are two buffers, which are exchanged: threads fill one while the reader processes the
// other, so that the lock is held only for a copy or an exchange.
class EventQueue {
  public:
    // Starts afresh with two buffers of `capacity` bytes; memory that is not used is never touched.
    void open(std::size_t capacity);

    // Events that are pushed from now on are ignored. The reader is woken, and still gets what is
    // there.
    void close();

    // Frees the buffers; the reader must be done.
    void release();

    // Never waits for the reader. Has no effect unless the queue is open.
    void push(Event event) noexcept;

    struct Taken {
        std::span<const std::byte> events;  // see for_each_event(); valid until the next take()
        std::uint64_t dropped = 0;          // since the last take()
        bool closed = false;                // nothing will follow
    };
    // Waits until `latest`, or until the buffer is half full or the queue is closed.
    [[nodiscard]] Taken take(Clock::time_point latest);

    // Longer names are cut to this length.
    static constexpr std::size_t longest_text = 4096;

  private:
    struct Buffer {
        std::unique_ptr<std::byte[]> memory;
        std::size_t used = 0;
    };

    std::mutex mutex_;
    std::condition_variable wake_;
    Buffer filling_;  // by push()
    Buffer taken_;    // of the reader
    std::size_t capacity_ = 0;
    std::uint64_t dropped_ = 0;
    bool open_ = false;
};

// Calls see(const Event&) for each event of a taken buffer; its text is valid during the call.
template <typename See>
void for_each_event(std::span<const std::byte> events, See&& see) {
    static_assert(std::is_trivially_copyable_v<Event>);
    while (!events.empty()) {
        Event event;
        std::memcpy(&event, events.data(), sizeof event);
        const std::size_t text_bytes = event.text.size();
        const auto text = events.subspan(sizeof event, text_bytes);
        // A view of characters is what the bytes were copied from.
        event.text = std::string_view(
            static_cast<const char*>(static_cast<const void*>(text.data())), text_bytes);
        see(static_cast<const Event&>(event));
        events = events.subspan(sizeof event + text_bytes);
    }
}

}  // namespace mpi_bridge
