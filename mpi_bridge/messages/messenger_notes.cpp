// SPDX-License-Identifier: Apache-2.0
// How the notes of peers are taken in: by a thread that waits for a message, or by the messenger's.
#include <algorithm>
#include <chrono>

#include "core/catching.hpp"
#include "messages/messenger.hpp"

namespace mpi_bridge {
namespace {

// A program that has just waited for a message is assumed to wait for another one.
constexpr std::chrono::milliseconds lease{1};
// A thread that has taken the beginning of a note looks this often whether it is still wanted for
// it. Its own message may be done, and the rest of the note may never come.
constexpr std::chrono::milliseconds longest_wait_for_rest{100};

}  // namespace

Done Messenger::lead(Lock& lock, Deadline deadline) {
    ++leads_;
    stirred_ = false;
    leading_ = true;
    if (listening_) parts_.transport->wake();
    Done heard = catching([&] {
        return listen(
            lock, true, [this] { return stirred_.load(); }, deadline);
    });
    leading_ = false;
    led_ = Clock::now();
    // Of all threads that wait, the first one to come leads from now on. If there is none, the
    // messenger's thread takes over after the lease.
    changed_.notify_all();
    if (resting_long_) rested_.notify_one();
    if (!heard) return give_up(lock, std::move(heard.error()));
    return {};
}

Done Messenger::listen(Lock& lock, bool leads, const std::function<bool()>& stop,
                       Deadline deadline) {
    if (!taking_ && !incoming_.request) {
        lock.unlock();
        auto arrival = catching([&] {
            return parts_.transport->await_message(notes_channel, note_tag.sequence, stop,
                                                   deadline);
        });
        lock.lock();
        if (!arrival) return pass_on(std::move(arrival));
        if (*arrival != Transport::Arrival::message) return {};
    }
    if (taking_) {
        changed_.wait_until(lock, deadline.when(), [&] { return !taking_ || stop(); });
        return {};
    }
    taking_ = true;
    // A leader that takes a note looks at its operation afterwards, so stir() need not wake it.
    if (leads) stirred_ = true;
    Done taken = catching([&] { return take_note(lock, deadline); });
    if (!lock.owns_lock()) lock.lock();
    taking_ = false;
    changed_.notify_all();
    return taken;
}

Done Messenger::take_note(Lock& lock, Deadline deadline) {
    lock.unlock();
    Transport& transport = *parts_.transport;
    if (!incoming_.request) {
        const auto from = transport.sender_of(notes_channel, note_tag.sequence);
        if (!from) return {};
        incoming_.from = *from;
        incoming_.request = TRY(transport.post_receive(
            *from, note_tag, std::as_writable_bytes(std::span(&incoming_.note, 1))));
    }
    const auto look_up = Clock::now() + longest_wait_for_rest;
    Done received =
        transport.wait(*incoming_.request, Deadline::at(std::min(deadline.when(), look_up)));
    if (received || !Transport::still_posted(received.error())) incoming_.request.reset();
    if (!received) {
        // The rest of the note is still to come.
        if (received.error().status == MPIB_ERROR_TIMEOUT) return {};
        return received;
    }
    ++notes_taken_;
    if (incoming_.note.kind == Note::Kind::closed) {
        if (parts_.closed) parts_.closed(incoming_.from, static_cast<int>(incoming_.note.serial));
        return {};
    }
    lock.lock();
    if (down_) return {};
    return hear(incoming_.from, incoming_.note);
}

void Messenger::work() {
    auto next_look = after(Clock::now(), parts_.between_looks);
    auto next_check = next_look;
    Lock lock(mutex_);
    while (!ending_) {
        Done done;
        if (is_led() || Clock::now() < led_ + lease) {
            rest(lock, std::min(next_look, next_check));
        } else {
            listening_ = true;
            done = listen(
                lock, false, [this] { return ending_ || is_led(); },
                Deadline::at(std::min(next_look, next_check)));
            listening_ = false;
        }
        if (ending_) break;
        // Notes that keep coming must not put it off.
        if (done && Clock::now() >= next_look) {
            done = catching([&]() -> Done {
                const bool all = look_for_peers_that_left();
                next_look = after(Clock::now(), all ? parts_.between_looks : Seconds(lease));
                return {};
            });
        }
        if (done && Clock::now() >= next_check) {
            done = catching([&]() -> Done {
                next_check = after(Clock::now(), parts_.between_looks);
                return check_leader(lock);
            });
        }
        if (done) done = catching([this] { return reap_notes(); });
        if (!done) {
            (void)give_up(lock, done.error());
            break;
        }
    }
    working_ = false;
    changed_.notify_all();
}

Done Messenger::check_leader(Lock& lock) {
    const std::uint64_t lead = leads_;
    const bool idle = lead == lead_checked_ && notes_taken_ == notes_at_check_;
    lead_checked_ = lead;
    notes_at_check_ = notes_taken_;
    if (!leading_ || !idle || taking_) return {};
    lock.unlock();
    auto arrival = catching([&] {
        return parts_.transport->await_message(
            notes_channel, note_tag.sequence, [this] { return ending_.load(); },
            Deadline::in(lease));
    });
    lock.lock();
    if (!arrival) return pass_on(std::move(arrival));
    // This note may have arrived just now. Then this thread listens needlessly until the next lead.
    if (*arrival == Transport::Arrival::message) stuck_lead_ = lead;
    return {};
}

void Messenger::rest(Lock& lock, Clock::time_point end) {
    const std::uint64_t leads = leads_;
    rested_.wait_until(lock, std::min(end, Clock::now() + lease));
    // Waits that follow each other quickly must not wake this thread, and neither must a long one.
    if (ending_ || !is_led() || leads_ != leads) return;
    resting_long_ = true;
    rested_.wait_until(lock, end, [&] { return ending_ || !leading_ || leads_ != leads; });
    resting_long_ = false;
}

void Messenger::drop_rest_of_note() {
    if (!incoming_.request) return;
    const Done received = parts_.transport->wait(*incoming_.request, Deadline::in(Seconds(0)));
    if (received || !Transport::still_posted(received.error())) incoming_.request.reset();
}

}  // namespace mpi_bridge
