// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "core/failure_token.hpp"
#include "core/waits.hpp"
#include "messages/matching.hpp"
#include "messages/note.hpp"
#include "transport/transport.hpp"

namespace mpi_bridge {

// The messages between two ranks of mpi_bridge_messages.h; the contracts are documented there.
//
// A sender first offers a message in a note. When the receiver has a matching receive, it posts the
// receive of the data and answers with a second note, upon which the sender sends the data. So data
// never meets a rank that has no place for it, and both sides learn of lengths that differ. Short
// data travels with the offer, as long as the receiver does not have to keep too much of it.
//
// A thread that waits for a message takes the notes in, for all messages, so that a note for the
// only thread that waits wakes no other one. Of several such threads one does, the leader; what it
// takes in for another wakes all of them. The first message of a process starts a thread that takes
// the notes in while nobody waits, or when notes lie there and the leader takes none. The data is
// moved by whatever thread makes the transport progress, and the thread that waits for a message
// also waits for its data. Any thread may call any function.
class Messenger {
  public:
    using Id = std::int64_t;
    static constexpr int any_rank = Matching::any_rank;

    struct Parts {
        Transport* transport = nullptr;
        Waits* waits = nullptr;           // where waits are registered, if anywhere
        FailureToken* failure = nullptr;  // the messenger watches it and may fail it
        // How long a message may wait for its peer; asked before each wait.
        std::function<Seconds()> timeout;
        // How often the thread looks for peers that have left, and for a leader that is stuck.
        Seconds between_looks{1};
        // Called without a lock when a peer has closed a process set, by the messenger's thread or
        // one that waits for a message.
        std::function<void(int peer, int process_set)> closed;
    };

    explicit Messenger(Parts parts);
    ~Messenger();  // shutdown() and ended() must come first
    Messenger(const Messenger&) = delete;
    Messenger& operator=(const Messenger&) = delete;

    [[nodiscard]] Outcome<Id> send(int to, std::string_view channel, std::int64_t tag,
                                   std::span<const std::byte> data);
    [[nodiscard]] Outcome<Id> receive(int from, std::string_view channel, std::int64_t tag,
                                      std::span<std::byte> memory);
    // Returns nullopt if the message is unknown.
    [[nodiscard]] std::optional<bool> poll(Id id);
    // With seconds <= 0 it waits as long as the timeout allows.
    [[nodiscard]] Done wait(Id id, double seconds);
    [[nodiscard]] std::optional<int> peer(Id id);
    [[nodiscard]] Done release(Id id);

    // Tells a peer that this rank has closed a process set. Does not wait, and is delivered after
    // everything that this rank has told this peer before.
    [[nodiscard]] Done tell_closed(int to, int process_set);

    // Fails what has not been matched, with this cause, and everything that comes later.
    void shutdown(const Failure& cause);
    // Returns whether the thread has ended and no data is in flight. Waits for that until the
    // deadline.
    [[nodiscard]] bool ended(Deadline deadline);

  private:
    using Lock = std::unique_lock<std::mutex>;

    struct Operation {
        enum class Stage {
            waiting,  // for the other side
            moving,   // `request` is posted
            done,
        };
        Id id = 0;
        Stage stage = Stage::waiting;
        bool receives = false;
        int peer = any_rank;
        std::uint32_t serial = 0;  // the sender's number; of a receive: once it is matched
        std::string channel;
        MessageAddress address;
        std::byte* memory = nullptr;
        std::size_t bytes = 0;
        Request request = 0;
        bool carried = false;   // a send: its data has travelled with the offer
        bool attended = false;  // a thread is in Transport::wait() for the request
        // When the wait that goes on began, or the latest one. A caller may wait in short pieces,
        // between which it looks for signals; these are one wait.
        Clock::time_point wait_began;
        std::optional<Clock::time_point> wait_ended;
        int waiters = 0;
        Clock::time_point moving_since;
        std::optional<Failure> failure;

        [[nodiscard]] bool waits() const { return stage == Stage::waiting; }
        [[nodiscard]] bool done() const { return stage == Stage::done; }
    };
    using OperationPointer = std::shared_ptr<Operation>;

    // The note that is being taken in. If its sender ends in the middle of it, the transport keeps
    // the receive, and with it this memory, until it is abandoned.
    struct Incoming {
        Note note;
        int from = 0;
        std::optional<Request> request;  // posted, and not done
    };

    struct SentNote {
        Note note;
        int to = 0;
        Request request = 0;
    };

    [[nodiscard]] Done admit(int peer, bool receives) const;
    [[nodiscard]] OperationPointer add(int peer, std::string_view channel, std::int64_t tag,
                                       std::byte* memory, std::size_t bytes);
    [[nodiscard]] OperationPointer find(Id id);
    void start();

    // These need the lock.
    [[nodiscard]] Done send_note(int to, const Note& note);
    [[nodiscard]] Done reap_notes();
    // Sends what ends a receive whose message this rank has given up.
    [[nodiscard]] Done send_no_data(int to, std::uint32_t serial);
    [[nodiscard]] Done post_note(int to, Tag tag, const Note& note, std::size_t bytes);
    // Takes a send out of those that were offered; nullptr if it is not among them.
    [[nodiscard]] OperationPointer take_offered(int to, std::uint32_t serial);
    // A note could not be delivered because its target has left. Ends the operation concerned.
    void missed(int to, const Note& note);
    // Whether the failure says only that this rank has left in order: all other peers are there.
    [[nodiscard]] bool says_left(const Failure& failure, int rank);
    [[nodiscard]] std::optional<Matching::Offer> match(const Operation& receive);
    void begin_to_move(Operation& operation, Request request);
    [[nodiscard]] Done take(Operation& receive, const Matching::Offer& offer);
    [[nodiscard]] Done hear(int from, const Note& note);
    void end(Operation& operation, std::optional<Failure> failure);
    void fail_waiting(const Failure& cause);

    // Moves the data of an operation that no other thread attends, and returns the failure that
    // ends everything.
    [[nodiscard]] Done attend(Lock& lock, Operation& operation, Deadline deadline);
    [[nodiscard]] Done await(Lock& lock, Operation& operation, Deadline deadline);
    [[nodiscard]] Done await_end(Lock& lock, Operation& operation, Deadline deadline);
    // Tells everybody about a failure, without the lock.
    [[nodiscard]] tl::unexpected<Failure> give_up(Lock& lock, Failure failure);
    [[nodiscard]] Done outcome_of(Lock& lock, const Operation& operation);

    // Takes in a note, if one comes before the deadline and before `stop` (see
    // Transport::await_message()). Returns at least after each note.
    [[nodiscard]] Done listen(Lock& lock, bool leads, const std::function<bool()>& stop,
                              Deadline deadline);
    [[nodiscard]] Done take_note(Lock& lock, Deadline deadline);
    // The same for the thread that waits, until an operation changes.
    [[nodiscard]] Done lead(Lock& lock, Deadline deadline);
    // Wakes the threads that wait for an operation to change. Needs the lock.
    void stir();

    void work();
    // Leaves the notes to threads that wait, as long as they keep waiting.
    void rest(Lock& lock, Clock::time_point end);
    // Returns false if it has to look again once the notes that are here have been taken.
    [[nodiscard]] bool look_for_peers_that_left();
    // Finds out whether the leader is stuck: a debugger or the system may have stopped its thread.
    [[nodiscard]] Done check_leader(Lock& lock);
    [[nodiscard]] bool is_led() const { return leading_ && leads_ != stuck_lead_; }
    void drop_rest_of_note();

    const Parts parts_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<Id, OperationPointer> operations_;
    std::map<std::pair<int, std::uint32_t>, OperationPointer> sends_;  // offered, by peer, serial
    std::map<int, std::uint32_t> latest_serial_;                       // by peer
    std::map<int, std::size_t> carried_to_;  // by peer: bytes of the offers without an answer
    Id latest_id_ = 0;
    Matching matching_;
    std::list<SentNote> notes_;
    // Notes to ranks that have left. The transport keeps them posted, so their memory stays.
    std::list<SentNote> undelivered_;
    Incoming incoming_;  // only for the thread that has set taking_
    bool taking_ = false;
    std::atomic<bool> leading_{false};          // written with the lock
    std::atomic<bool> stirred_{false};          // the leader has to look at its operation
    std::atomic<std::uint64_t> leads_{0};       // how often a thread has begun to lead
    std::atomic<std::uint64_t> stuck_lead_{0};  // the number of one that must not be waited for
    std::uint64_t lead_checked_ = 0;            // by the latest check_leader()
    std::uint64_t notes_at_check_ = 0;
    std::atomic<std::uint64_t> notes_taken_{0};
    Clock::time_point led_;           // when the latest leader left
    bool listening_ = false;          // the thread takes notes in
    bool resting_long_ = false;       // the thread looks for a new leader only when woken
    std::condition_variable rested_;  // for the thread
    std::optional<Failure> down_;     // why there can be no more messages
    std::atomic<bool> ending_{false};
    bool working_ = false;  // the thread has not ended
    std::thread thread_;
    // Declared last, so that it is called only while everything above exists.
    std::optional<FailureToken::Watch> watch_;
};

}  // namespace mpi_bridge
