// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "messages/note.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// The threads that take in the notes of the peers, and the waits for what the notes bring about.
//
// A thread that waits for a message takes the notes in, for all messages, so that a note for the
// only thread that waits wakes no other one. Of several such threads one does, the leader; what it
// takes in for another wakes all of them. start() starts a thread of its own, which takes the notes
// in while nobody waits, or when notes lie there and the leader takes none.
//
// All functions except join() need the lock of mutex(), which some give up while they wait.
class Listeners {
  public:
    using Lock = std::unique_lock<std::mutex>;

    // Who is told what the threads hear.
    class Hearer {
      public:
        virtual ~Hearer() = default;
        // Whether a receive has been posted for the message of this offer, whose data lies behind
        // it. If so, hear() may be called before that data has come. Called with the lock.
        [[nodiscard]] virtual bool has_place_for(int from, const Note& note) = 0;
        // A note about a message has come, with the data that it carries. Called with the lock.
        [[nodiscard]] virtual Done hear(int from, const Note& note,
                                        std::span<const std::byte> data) = 0;
        // A peer has closed a process set. Called without the lock.
        virtual void closed(int from, int process_set) = 0;
        // Looks for peers that have left. Called with the lock, by the own thread. Returns false if
        // it has to look again once the notes that are here have been taken.
        [[nodiscard]] virtual Outcome<bool> look_for_peers_that_left() = 0;
        // Frees what has been sent. Called with the lock, by the own thread.
        [[nodiscard]] virtual Done reap_notes() = 0;
        // Ends everything with that failure. Called with the lock, which it gives up meanwhile.
        [[nodiscard]] virtual tl::unexpected<Failure> fail_all(Lock& lock, Failure failure) = 0;
    };

    // `between_looks`: how often the own thread looks for peers that have left, and for a leader
    // that is stuck.
    Listeners(Transport* transport, Seconds between_looks, Hearer& hearer);
    Listeners(const Listeners&) = delete;
    Listeners& operator=(const Listeners&) = delete;
    ~Listeners() = default;

    [[nodiscard]] std::mutex& mutex() { return mutex_; }
    // Starts the thread unless it has been started before.
    void start();
    // Waits until something has changed, or until the deadline. A thread that waits for a note
    // leads if no other does. Fails when everything fails.
    [[nodiscard]] Done wait(Lock& lock, bool for_note, Deadline deadline);
    // Makes the threads in wait() look at what they wait for.
    void changed();
    // Makes those do so that do not wait for a note.
    void changed_but_for_notes() { changed_.notify_all(); }
    // Whether a note of a peer has come that has not been heard yet, or not to its end.
    [[nodiscard]] bool has_note();

    // Ends the thread, and then the waits for notes once changed() is called. The caller must call
    // Transport::wake() afterwards, without the lock.
    void stop();
    // Whether the thread has ended, and no other one takes notes in.
    [[nodiscard]] bool ended();
    // The transport has let go of the memory of a note that has come in part.
    void forget_note();
    void join();

  private:
    // The note that is being taken in. If its sender ends in the middle of it, the transport keeps
    // the receive, and with it this memory, until it is abandoned.
    struct Incoming {
        Note note;
        // The data of an offer that carries more than the note has room for, if nobody has posted a
        // receive. Empty until the note itself is here.
        std::vector<std::byte> data;
        int from = 0;
        std::optional<Request> request;  // posted, and not done

        // What is here of the data.
        [[nodiscard]] std::span<const std::byte> carried() const;
    };

    // Takes notes in until something changes.
    [[nodiscard]] Done lead(Lock& lock, Deadline deadline);
    // Takes in a note, if one comes before the deadline and before `stop` (see
    // Transport::await_message()). Returns at least after each note.
    [[nodiscard]] Done listen(Lock& lock, bool leads, const std::function<bool()>& stop,
                              Deadline deadline);
    [[nodiscard]] Done take_note(Lock& lock, Deadline deadline);
    // Waits for what was posted last. Returns whether it has come.
    [[nodiscard]] Outcome<bool> take_posted(Deadline deadline);

    void work();
    // Leaves the notes to threads that wait, as long as they keep waiting.
    void rest(Lock& lock, Clock::time_point end);
    // Finds out whether the leader is stuck: a debugger or the system may have stopped its thread.
    [[nodiscard]] Done check_leader(Lock& lock);
    [[nodiscard]] bool is_led() const { return leading_ && leads_ != stuck_lead_; }

    Transport* const transport_;
    const Seconds between_looks_;
    Hearer& hearer_;
    std::mutex mutex_;
    std::condition_variable changed_;
    Incoming incoming_;  // only for the thread that has set taking_
    bool taking_ = false;
    std::atomic<bool> leading_{false};          // written with the lock
    std::atomic<bool> stirred_{false};          // the leader has to look at what it waits for
    std::atomic<std::uint64_t> leads_{0};       // how often a thread has begun to lead
    std::atomic<std::uint64_t> stuck_lead_{0};  // the number of one that must not be waited for
    std::uint64_t lead_checked_ = 0;            // by the latest check_leader()
    std::uint64_t notes_at_check_ = 0;
    std::atomic<std::uint64_t> notes_taken_{0};
    Clock::time_point led_;           // when the latest leader left
    bool listening_ = false;          // the thread takes notes in
    bool resting_long_ = false;       // the thread looks for a new leader only when woken
    std::condition_variable rested_;  // for the thread
    std::atomic<bool> ending_{false};
    bool working_ = false;  // the thread has not ended
    std::thread thread_;
};

}  // namespace mpi_bridge
