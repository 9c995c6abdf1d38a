// SPDX-License-Identifier: Apache-2.0
#include "messages/listeners.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/catching.hpp"
#include "core/quiet_thread.hpp"

namespace mpi_bridge {
namespace {

// A program that has just waited for a message is assumed to wait for another one.
constexpr std::chrono::milliseconds waiter_lease{1};
// A thread that has taken the beginning of a note looks this often whether it is still wanted for
// it. Its own message may be done, and the rest of the note may never come.
constexpr std::chrono::milliseconds longest_wait_for_rest{100};

}  // namespace

Listeners::Listeners(Transport* transport, Seconds between_looks, Hearer& hearer)
    : transport_(transport), between_looks_(between_looks), hearer_(hearer) {}

void Listeners::start() {
    if (thread_.joinable()) return;
    working_ = true;
    try {
        thread_ = start_quiet_thread([this] { work(); });
    } catch (...) {
        working_ = false;
        throw;
    }
}

void Listeners::join() {
    if (thread_.joinable()) thread_.join();
}

Done Listeners::wait(Lock& lock, bool for_note, Deadline deadline) {
    if (for_note && !leading_) return lead(lock, deadline);
    changed_.wait_until(lock, deadline.when());
    return {};
}

void Listeners::changed() {
    changed_.notify_all();
    if (leading_ && !stirred_.exchange(true)) transport_->wake();
}

Done Listeners::lead(Lock& lock, Deadline deadline) {
    ++leads_;
    stirred_ = false;
    leading_ = true;
    if (listening_) transport_->wake();
    Done heard = catching([&] {
        return listen(
            lock, true, [this] { return stirred_.load(); }, deadline);
    });
    leading_ = false;
    led_ = Clock::now();
    // Of all threads that wait, the first one to come leads from now on. If there is none, the
    // own thread takes over after the lease.
    changed_.notify_all();
    if (resting_long_) rested_.notify_one();
    if (!heard) return hearer_.fail_all(lock, std::move(heard.error()));
    return {};
}

Done Listeners::listen(Lock& lock, bool leads, const std::function<bool()>& stop,
                       Deadline deadline) {
    if (!taking_ && !incoming_.request) {
        lock.unlock();
        auto arrival = catching([&] {
            return transport_->await_message(notes_channel, note_tag.sequence, stop, deadline);
        });
        lock.lock();
        if (TRY(std::move(arrival)) != Transport::Arrival::message) return {};
    }
    if (taking_) {
        changed_.wait_until(lock, deadline.when(), [&] { return !taking_ || stop(); });
        return {};
    }
    taking_ = true;
    // A leader that takes a note looks at its message afterwards, so changed() need not wake it.
    if (leads) stirred_ = true;
    Done taken = catching([&] { return take_note(lock, deadline); });
    if (!lock.owns_lock()) lock.lock();
    taking_ = false;
    changed_.notify_all();
    return taken;
}

std::span<const std::byte> Listeners::Incoming::carried() const {
    if (note.kind != Note::Kind::offer_with_data) return {};
    if (!data.empty()) return data;
    return std::span(note.carried).first(std::min<std::size_t>(note.bytes, Note::room));
}

Outcome<bool> Listeners::take_posted(Deadline deadline) {
    Done received = transport_->wait(*incoming_.request, deadline);
    if (received || !Transport::still_posted(received.error())) incoming_.request.reset();
    if (!received && received.error().status == MPIB_ERROR_TIMEOUT) return false;
    TRY(std::move(received));
    return true;
}

Done Listeners::take_note(Lock& lock, Deadline deadline) {
    lock.unlock();
    if (!incoming_.request) {
        const auto from = transport_->sender_of(notes_channel, note_tag.sequence);
        if (!from) return {};
        incoming_.from = *from;
        incoming_.data.clear();
        incoming_.request = TRY(transport_->post_receive(
            *from, note_tag, std::as_writable_bytes(std::span(&incoming_.note, 1))));
    }
    const Note& note = incoming_.note;
    const auto until =
        Deadline::at(std::min(deadline.when(), Clock::now() + longest_wait_for_rest));
    // If it has not come, the rest of the note is still to come, or of the data behind it.
    if (!TRY(take_posted(until))) return {};
    if (note.bytes_behind() > 0 && incoming_.data.empty()) {
        lock.lock();
        if (hearer_.has_place_for(incoming_.from, note)) {
            ++notes_taken_;
            return hearer_.hear(incoming_.from, note, incoming_.carried());
        }
        lock.unlock();
        incoming_.data.resize(note.bytes);
        std::copy(note.carried.begin(), note.carried.end(), incoming_.data.begin());
        incoming_.request = TRY(transport_->post_receive(
            incoming_.from, data_tag(note.serial), std::span(incoming_.data).subspan(Note::room)));
        if (!TRY(take_posted(until))) return {};
    }
    ++notes_taken_;
    if (incoming_.note.kind == Note::Kind::closed) {
        hearer_.closed(incoming_.from, static_cast<int>(incoming_.note.serial));
        return {};
    }
    lock.lock();
    return hearer_.hear(incoming_.from, note, incoming_.carried());
}

bool Listeners::has_note() {
    return taking_ || incoming_.request ||
           transport_->sender_of(notes_channel, note_tag.sequence).has_value();
}

void Listeners::work() {
    auto next_look = after(Clock::now(), between_looks_);
    auto next_check = next_look;
    Lock lock(mutex_);
    while (!ending_) {
        Done done;
        if (is_led() || Clock::now() < led_ + waiter_lease) {
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
                const bool all = TRY(hearer_.look_for_peers_that_left());
                next_look = after(Clock::now(), all ? between_looks_ : Seconds(waiter_lease));
                return {};
            });
        }
        if (done && Clock::now() >= next_check) {
            done = catching([&]() -> Done {
                next_check = after(Clock::now(), between_looks_);
                return check_leader(lock);
            });
        }
        if (done) done = catching([this] { return hearer_.reap_notes(); });
        if (!done) {
            (void)hearer_.fail_all(lock, done.error());
            break;
        }
    }
    working_ = false;
    changed_.notify_all();
}

void Listeners::rest(Lock& lock, Clock::time_point end) {
    const std::uint64_t leads = leads_;
    rested_.wait_until(lock, std::min(end, Clock::now() + waiter_lease));
    // Waits that follow each other quickly must not wake this thread, and neither must a long one.
    if (ending_ || !is_led() || leads_ != leads) return;
    resting_long_ = true;
    rested_.wait_until(lock, end, [&] { return ending_ || !leading_ || leads_ != leads; });
    resting_long_ = false;
}

Done Listeners::check_leader(Lock& lock) {
    const std::uint64_t lead = leads_;
    const bool idle = lead == lead_checked_ && notes_taken_ == notes_at_check_;
    lead_checked_ = lead;
    notes_at_check_ = notes_taken_;
    if (!leading_ || !idle || taking_) return {};
    lock.unlock();
    auto arrival = catching([&] {
        return transport_->await_message(
            notes_channel, note_tag.sequence, [this] { return ending_.load(); },
            Deadline::in(waiter_lease));
    });
    lock.lock();
    // This note may have arrived just now. Then this thread listens needlessly until the next lead.
    if (TRY(std::move(arrival)) == Transport::Arrival::message) stuck_lead_ = lead;
    return {};
}

void Listeners::stop() {
    ending_ = true;
    changed_.notify_all();
    rested_.notify_one();
}

bool Listeners::ended() {
    if (working_ || leading_ || taking_) return false;
    // The thread that would take in the rest of a note has ended.
    if (incoming_.request) {
        const Done received = transport_->wait(*incoming_.request, Deadline::in(Seconds(0)));
        if (received || !Transport::still_posted(received.error())) incoming_.request.reset();
    }
    return !incoming_.request;
}

void Listeners::forget_note() {
    if (!taking_) incoming_.request.reset();
}

}  // namespace mpi_bridge
