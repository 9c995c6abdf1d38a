// SPDX-License-Identifier: Apache-2.0
#include "messages/messenger.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include <fmt/core.h>

#include "core/catching.hpp"
#include "core/quiet_thread.hpp"
#include "core/sha256.hpp"

namespace mpi_bridge {
namespace {

// Data moves at this rate at least, or its peer counts as stuck: a long message may take longer
// than the timeout, which is for a peer that makes no progress.
constexpr double slowest_bytes_per_second = 16.0 * 1024 * 1024;
constexpr std::chrono::milliseconds pause_in_ending{1};
// What a receiver has to keep at most of the data that one sender has sent before its receives were
// posted. Offers beyond that travel without their data.
constexpr std::size_t most_carried_to_a_rank = 64UL * 1024;
// Waits with a longer pause between them are not pieces of one wait.
constexpr Seconds longest_pause_in_wait{1};

MessageAddress address_of(std::string_view channel, std::int64_t tag) {
    MessageAddress address;
    const auto digest = Sha256().add(std::as_bytes(std::span(channel))).finish();
    std::copy_n(digest.begin(), address.channel.size(), address.channel.begin());
    address.tag = tag;
    return address;
}

std::string place_of(std::string_view channel, std::int64_t tag) {
    return channel.empty() ? fmt::format("tag {}", tag)
                           : fmt::format("channel \"{}\", tag {}", channel, tag);
}

tl::unexpected<Failure> still_under_way() {
    return fail(MPIB_ERROR_TIMEOUT, "the message is still under way");
}

Failure left(bool receives, int peer, const std::string& place) {
    return {.status = MPIB_ERROR_PEER_LOST,
            .text = fmt::format("{} rank {} ({}): that rank has left the job step (mpib_finalize)",
                                receives ? "receiving from" : "sending to", peer, place),
            .of_rank = peer};
}

Failure given_up(int peer, const std::string& place) {
    return {.status = MPIB_ERROR_TIMEOUT,
            .text = fmt::format("receiving from rank {} ({}): that rank had given this message up, "
                                "because nobody received it in time",
                                peer, place)};
}

tl::unexpected<Failure> not_understood(int from) {
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("rank {} has sent a note that this rank does not understand; do all "
                            "ranks use the same version of mpi_bridge?",
                            from));
}

tl::unexpected<Failure> unknown_message() {
    return invalid("the handle of the message is unknown, or was released");
}

}  // namespace

Messenger::Messenger(Parts parts) : parts_(std::move(parts)) {
    watch_.emplace(*parts_.failure, [this](const Failure& cause) {
        const Lock lock(mutex_);
        down_ = cause;
        // Nobody returns to a caller with this before the transport has let go of the memory: see
        // outcome_of().
        for (const auto& [id, operation] : operations_) {
            if (!operation->done()) end(*operation, cause);
        }
    });
}

Messenger::~Messenger() {
    watch_.reset();
    if (thread_.joinable()) thread_.join();
}

Done Messenger::admit(int peer, bool receives) const {
    const int size = parts_.transport == nullptr ? 1 : parts_.transport->size();
    if (size == 1) return invalid("a message needs another rank, and this job step has only one");
    if (receives && peer == any_rank) return {};
    if (peer < 0 || peer >= size)
        return invalid(fmt::format("there is no rank {}; ranks are 0 to {}", peer, size - 1));
    if (peer == parts_.transport->rank())
        return invalid(fmt::format("rank {} cannot exchange messages with itself", peer));
    return {};
}

void Messenger::start() {
    if (thread_.joinable()) return;
    working_ = true;
    try {
        thread_ = start_quiet_thread([this] { work(); });
    } catch (...) {
        working_ = false;
        throw;
    }
}

Messenger::OperationPointer Messenger::add(int peer, std::string_view channel, std::int64_t tag,
                                           std::byte* memory, std::size_t bytes) {
    auto operation = std::make_shared<Operation>();
    operation->id = ++latest_id_;
    operation->peer = peer;
    operation->channel = channel;
    operation->address = address_of(channel, tag);
    operation->memory = memory;
    operation->bytes = bytes;
    operations_.emplace(operation->id, operation);
    return operation;
}

Messenger::OperationPointer Messenger::find(Id id) {
    const auto found = operations_.find(id);
    return found == operations_.end() ? nullptr : found->second;
}

Outcome<Messenger::Id> Messenger::send(int to, std::string_view channel, std::int64_t tag,
                                       std::span<const std::byte> data) {
    TRY(admit(to, false));
    Lock lock(mutex_);
    if (down_) return tl::unexpected(*down_);
    start();
    // A send only reads this memory.
    const auto operation =
        add(to, channel, tag, const_cast<std::byte*>(data.data()), data.size());  // NOLINT
    operation->serial = ++latest_serial_[to];
    sends_[{to, operation->serial}] = operation;
    const Done offered = catching([&] {
        Note note{.kind = Note::Kind::offer,
                  .serial = operation->serial,
                  .address = operation->address,
                  .bytes = operation->bytes};
        std::size_t& carried = carried_to_[to];
        if (data.size() <= std::min(Note::most_carried, most_carried_to_a_rank - carried)) {
            carried += data.size();
            operation->carried = true;
            note.kind = Note::Kind::offer_with_data;
            std::copy(data.begin(), data.end(), note.carried.begin());
        }
        return send_note(to, note);
    });
    if (!offered) return give_up(lock, offered.error());
    return operation->id;
}

Outcome<Messenger::Id> Messenger::receive(int from, std::string_view channel, std::int64_t tag,
                                          std::span<std::byte> memory) {
    TRY(admit(from, true));
    Lock lock(mutex_);
    if (down_) return tl::unexpected(*down_);
    start();
    const auto operation = add(from, channel, tag, memory.data(), memory.size());
    operation->receives = true;
    const Done taken = catching([&]() -> Done {
        const auto offer = match(*operation);
        if (offer) return take(*operation, *offer);
        return {};
    });
    if (!taken) return give_up(lock, taken.error());
    return operation->id;
}

Done Messenger::tell_closed(int to, int process_set) {
    Lock lock(mutex_);
    if (down_) return tl::unexpected(*down_);
    start();
    const Done told = catching([&] {
        return send_note(
            to, {.kind = Note::Kind::closed, .serial = static_cast<std::uint32_t>(process_set)});
    });
    if (!told) return give_up(lock, told.error());
    return {};
}

// The offer of a rank that has left stays behind, but its data will never come.
std::optional<Matching::Offer> Messenger::match(const Operation& receive) {
    const int from = receive.peer;
    auto offer = matching_.post({receive.id, from, receive.address});
    while (offer && parts_.transport->is_gone(offer->from)) {
        matching_.forget_offers_of(offer->from);
        offer = matching_.post({receive.id, from, receive.address});
    }
    return offer;
}

Done Messenger::send_note(int to, const Note& note) {
    return post_note(to, note_tag, note, sizeof note);
}

Done Messenger::send_no_data(int to, std::uint32_t serial) {
    // The note is only what a note to a rank that has left is ended by.
    const Note note{.kind = Note::Kind::refuse, .serial = serial};
    return post_note(to, no_data_tag(serial), note, 0);
}

Done Messenger::post_note(int to, Tag tag, const Note& note, std::size_t bytes) {
    TRY(reap_notes());
    SentNote& sent = notes_.emplace_back(SentNote{note, to, 0});
    auto request = catching([&] {
        return parts_.transport->post_send(to, tag,
                                           std::as_bytes(std::span(&sent.note, 1)).first(bytes));
    });
    if (request) {
        sent.request = *request;
        return {};
    }
    notes_.pop_back();
    if (!says_left(request.error(), to)) return pass_on(std::move(request));
    missed(to, note);
    return {};
}

bool Messenger::says_left(const Failure& failure, int rank) {
    if (failure.status != MPIB_ERROR_PEER_LOST || failure.of_rank != rank) return false;
    if (!parts_.transport->is_gone(rank)) return false;
    // This fails if any peer was lost, and then everything fails.
    return parts_.transport
        ->await_message(
            notes_channel, note_tag.sequence, [] { return false; }, Deadline::in(Seconds(0)))
        .has_value();
}

Messenger::OperationPointer Messenger::take_offered(int to, std::uint32_t serial) {
    const auto found = sends_.find({to, serial});
    if (found == sends_.end()) return nullptr;
    OperationPointer send = std::move(found->second);
    sends_.erase(found);
    if (send->carried) carried_to_[to] -= send->bytes;
    return send;
}

void Messenger::missed(int to, const Note& note) {
    if (note.kind == Note::Kind::offer || note.kind == Note::Kind::offer_with_data) {
        const auto send = take_offered(to, note.serial);
        if (send != nullptr && send->waits())
            end(*send, left(false, to, place_of(send->channel, send->address.tag)));
        return;
    }
    if (note.kind != Note::Kind::accept) return;
    for (const auto& [id, each] : operations_) {
        const bool moves = each->receives && each->stage == Operation::Stage::moving;
        if (moves && each->peer == to && each->serial == note.serial)
            end(*each, left(true, to, place_of(each->channel, each->address.tag)));
    }
}

bool Messenger::look_for_peers_that_left() {
    for (const auto& [id, operation] : operations_) {
        if (!operation->waits() || operation->peer == any_rank) continue;
        const int peer = operation->peer;
        if (!parts_.transport->is_gone(peer)) continue;
        // Everything that the peer has sent is here by now, but a note of its may be among those
        // that nobody has heard yet: here, or in the hands of a thread that is taking it in.
        if (taking_ || incoming_.request) return false;
        if (parts_.transport->sender_of(notes_channel, note_tag.sequence)) return false;
        if (operation->receives) matching_.withdraw(id);
        if (!operation->receives) (void)take_offered(peer, operation->serial);
        matching_.forget_offers_of(peer);
        end(*operation,
            left(operation->receives, peer, place_of(operation->channel, operation->address.tag)));
    }
    return true;
}

Done Messenger::reap_notes() {
    for (auto sent = notes_.begin(); sent != notes_.end();) {
        auto done = parts_.transport->wait(sent->request, Deadline::in(Seconds(0)));
        if (done) {
            sent = notes_.erase(sent);
            continue;
        }
        const auto next = std::next(sent);
        if (says_left(done.error(), sent->to)) {
            undelivered_.splice(undelivered_.end(), notes_, sent);
            missed(sent->to, sent->note);
        } else if (done.error().status != MPIB_ERROR_TIMEOUT) {
            if (!Transport::still_posted(done.error())) notes_.erase(sent);
            return done;
        }
        sent = next;
    }
    return {};
}

Done Messenger::take(Operation& receive, const Matching::Offer& offer) {
    receive.peer = offer.from;
    receive.serial = offer.serial;
    if (receive.bytes != offer.bytes) {
        TRY(send_note(
            offer.from,
            {.kind = Note::Kind::refuse, .serial = offer.serial, .bytes = receive.bytes}));
        end(receive,
            Failure{.status = MPIB_ERROR_MISMATCH,
                    .text = fmt::format("receiving from rank {} ({}): it sent {} bytes where {} "
                                        "were expected",
                                        offer.from, place_of(receive.channel, receive.address.tag),
                                        offer.bytes, receive.bytes)});
        return {};
    }
    if (offer.withdrawn) {
        end(receive, given_up(offer.from, place_of(receive.channel, receive.address.tag)));
        return {};
    }
    if (offer.carried) {
        std::copy(offer.carried->begin(), offer.carried->end(), receive.memory);
        TRY(send_note(
            offer.from,
            {.kind = Note::Kind::accept, .serial = offer.serial, .bytes = receive.bytes}));
        end(receive, std::nullopt);
        return {};
    }
    begin_to_move(receive,
                  TRY(parts_.transport->post_receive(offer.from, data_tag(offer.serial),
                                                     std::span(receive.memory, receive.bytes))));
    return send_note(offer.from,
                     {.kind = Note::Kind::accept, .serial = offer.serial, .bytes = receive.bytes});
}

void Messenger::begin_to_move(Operation& operation, Request request) {
    operation.request = request;
    operation.stage = Operation::Stage::moving;
    operation.moving_since = Clock::now();
    stir();
}

Done Messenger::hear(int from, const Note& note) {
    const bool with_data = note.kind == Note::Kind::offer_with_data;
    if (with_data && note.bytes > note.carried.size()) return not_understood(from);
    if (with_data || note.kind == Note::Kind::offer) {
        if (parts_.transport->is_gone(from)) return {};
        Matching::Offer offer{
            .from = from, .serial = note.serial, .address = note.address, .bytes = note.bytes};
        if (with_data) {
            const auto data = std::span(note.carried).first(note.bytes);
            offer.carried.emplace(data.begin(), data.end());
        }
        const auto receive = matching_.hear(offer);
        return receive ? take(*operations_.at(receive->id), offer) : Done();
    }
    if (note.kind == Note::Kind::withdraw) {
        matching_.give_up(from, note.serial);
        return {};
    }
    if (note.kind != Note::Kind::accept && note.kind != Note::Kind::refuse)
        return not_understood(from);
    const auto send = take_offered(from, note.serial);
    if (send == nullptr) return {};
    if (send->done()) {
        // A receive that has accepted carried data is done as well.
        const bool awaits_data = note.kind == Note::Kind::accept && !send->carried;
        return awaits_data ? send_no_data(from, note.serial) : Done();
    }
    if (note.kind == Note::Kind::refuse) {
        end(*send,
            Failure{.status = MPIB_ERROR_MISMATCH,
                    .text = fmt::format("sending to rank {} ({}): it expected {} bytes where {} "
                                        "were sent",
                                        from, place_of(send->channel, send->address.tag),
                                        note.bytes, send->bytes)});
        return {};
    }
    if (send->carried) {
        end(*send, std::nullopt);
        return {};
    }
    begin_to_move(*send, TRY(parts_.transport->post_send(from, data_tag(note.serial),
                                                         std::span(send->memory, send->bytes))));
    return {};
}

void Messenger::end(Operation& operation, std::optional<Failure> failure) {
    operation.stage = Operation::Stage::done;
    operation.failure = std::move(failure);
    stir();
}

void Messenger::stir() {
    changed_.notify_all();
    if (leading_ && !stirred_.exchange(true)) parts_.transport->wake();
}

void Messenger::fail_waiting(const Failure& cause) {
    for (const auto& [id, operation] : operations_) {
        if (operation->waits()) end(*operation, cause);
    }
}

tl::unexpected<Failure> Messenger::give_up(Lock& lock, Failure failure) {
    lock.unlock();
    if (failure.status == MPIB_ERROR_PEER_LOST) {
        failure.text = fmt::format(
            "a message between two ranks: lost {}; look for the first error of the lost rank",
            failure.text);
    }
    Failure cause = parts_.failure->fail(std::move(failure));
    lock.lock();
    return tl::unexpected(std::move(cause));
}

Done Messenger::attend(Lock& lock, Operation& operation, Deadline deadline) {
    const Request request = operation.request;
    operation.attended = true;
    lock.unlock();
    Done moved = parts_.transport->wait(request, deadline);
    lock.lock();
    operation.attended = false;
    changed_.notify_all();
    // It may have failed together with everything else.
    if (operation.done()) return {};
    if (moved) {
        end(operation, std::nullopt);
        return {};
    }
    const Failure& failure = moved.error();
    if (failure.status == MPIB_ERROR_TIMEOUT) return moved;
    const auto place = place_of(operation.channel, operation.address.tag);
    if (operation.receives && failure.status == MPIB_ERROR_MISMATCH) {
        end(operation, given_up(operation.peer, place));
        return {};
    }
    if (operation.receives && says_left(failure, operation.peer)) {
        end(operation, left(true, operation.peer, place));
        return {};
    }
    return give_up(lock, failure);
}

Done Messenger::await(Lock& lock, Operation& operation, Deadline deadline) {
    const auto now = Clock::now();
    const bool goes_on =
        operation.waiters != 0 ||
        (operation.wait_ended && now <= after(*operation.wait_ended, longest_pause_in_wait));
    if (!goes_on) operation.wait_began = now;
    ++operation.waiters;
    Done done = await_end(lock, operation, deadline);
    --operation.waiters;
    operation.wait_ended = Clock::now();
    return done;
}

Done Messenger::await_end(Lock& lock, Operation& operation, Deadline deadline) {
    const char* const verb = operation.receives ? "receiving from" : "sending to";
    const auto too_late = [&](Seconds patience) {
        return Failure{
            .status = MPIB_ERROR_TIMEOUT,
            .text = fmt::format(
                "{} {} ({}, {} bytes): timed out after {:g} s: that rank is late, stuck, "
                "or did not {}",
                verb, operation.peer < 0 ? "any rank" : fmt::format("rank {}", operation.peer),
                place_of(operation.channel, operation.address.tag), operation.bytes,
                patience.count(), operation.receives ? "send" : "receive")};
    };
    while (!operation.done()) {
        const Seconds patience = parts_.timeout();
        const int peer = operation.peer;
        const Waits::Waiting waiting(peer == any_rank ? nullptr : parts_.waits, peer,
                                     Waits::Lane::direct, operation.wait_began);
        if (operation.stage == Operation::Stage::moving && !operation.attended) {
            const Seconds whole =
                patience + Seconds(static_cast<double>(operation.bytes) / slowest_bytes_per_second);
            const auto ends = after(std::max(operation.wait_began, operation.moving_since), whole);
            const Done attended =
                attend(lock, operation, Deadline::at(std::min(deadline.when(), ends)));
            if (attended || operation.done()) continue;
            if (Clock::now() >= ends) return give_up(lock, too_late(whole));
            if (deadline.passed()) return still_under_way();
            continue;
        }
        const bool waits = operation.waits();
        const auto patience_ends = after(operation.wait_began, patience);
        const auto ends = waits ? std::min(deadline.when(), patience_ends) : deadline.when();
        Done led;
        if (waits && !leading_) {
            led = lead(lock, Deadline::at(ends));
        } else {
            changed_.wait_until(lock, ends);
        }
        // Its own end counts, even if everything else has failed meanwhile.
        if (operation.done()) break;
        if (!led) return led;
        // Nothing is in flight, so only this message fails. An offer stays with its receiver, and
        // hear() answers when it is accepted after all.
        if (operation.waits() && Clock::now() >= patience_ends) {
            if (operation.receives) matching_.withdraw(operation.id);
            end(operation, too_late(patience));
            if (operation.carried) {
                // Nobody answers this note; an answer that is under way is for nobody.
                (void)take_offered(operation.peer, operation.serial);
                const Done told = catching([&] {
                    return send_note(operation.peer,
                                     {.kind = Note::Kind::withdraw, .serial = operation.serial});
                });
                if (!told) (void)give_up(lock, told.error());
            }
            break;
        }
        if (deadline.passed()) return still_under_way();
    }
    return {};
}

Done Messenger::outcome_of(Lock& lock, const Operation& operation) {
    if (!operation.failure) return {};
    const Failure failure = *operation.failure;
    if (!parts_.failure->failed()) return tl::unexpected(failure);
    lock.unlock();
    // Returns once nothing that was under way uses the caller's memory any more.
    (void)parts_.failure->fail(failure);
    lock.lock();
    return tl::unexpected(failure);
}

std::optional<bool> Messenger::poll(Id id) {
    Lock lock(mutex_);
    const auto operation = find(id);
    if (operation == nullptr) return std::nullopt;
    if (operation->stage == Operation::Stage::moving && !operation->attended)
        (void)attend(lock, *operation, Deadline::in(Seconds(0)));
    if (!operation->done()) return false;
    (void)outcome_of(lock, *operation);
    return true;
}

Done Messenger::wait(Id id, double seconds) {
    Lock lock(mutex_);
    const auto operation = find(id);
    if (operation == nullptr) return unknown_message();
    TRY(await(lock, *operation, Deadline::in(seconds > 0 ? Seconds(seconds) : no_limit)));
    return outcome_of(lock, *operation);
}

std::optional<int> Messenger::peer(Id id) {
    const Lock lock(mutex_);
    const auto operation = find(id);
    return operation == nullptr ? std::nullopt : std::optional(operation->peer);
}

Done Messenger::release(Id id) {
    Lock lock(mutex_);
    const auto operation = find(id);
    if (operation == nullptr) return unknown_message();
    if (operation->receives && operation->waits()) {
        matching_.withdraw(id);
        end(*operation, Failure{.status = MPIB_ERROR_INVALID_ARGUMENT,
                                .text = "the receive was withdrawn by another thread"});
    }
    (void)await(lock, *operation, Deadline::in(no_limit));
    (void)outcome_of(lock, *operation);
    operations_.erase(id);
    return {};
}

void Messenger::shutdown(const Failure& cause) {
    {
        const Lock lock(mutex_);
        if (!down_) down_ = cause;
        fail_waiting(cause);
        ending_ = true;
        changed_.notify_all();
        rested_.notify_one();
    }
    if (parts_.transport != nullptr) parts_.transport->wake();
}

bool Messenger::ended(Deadline deadline) {
    Lock lock(mutex_);
    for (;;) {
        std::vector<OperationPointer> moving;
        for (const auto& [id, operation] : operations_) {
            if (operation->stage == Operation::Stage::moving || operation->attended)
                moving.push_back(operation);
        }
        for (const auto& operation : moving) {
            if (!operation->attended && !operation->done())
                (void)attend(lock, *operation, Deadline::in(Seconds(0)));
        }
        // A broken transport holds no memory any more, but it is broken only when all have been
        // told of the failure.
        if (parts_.failure->failed()) {
            lock.unlock();
            (void)parts_.failure->fail(parts_.failure->cause());
            lock.lock();
            notes_.clear();
            undelivered_.clear();
            if (!taking_) incoming_.request.reset();
        }
        const bool delivered = reap_notes().has_value() && notes_.empty();
        // The thread that would take in the rest of a note has ended.
        if (!working_ && !leading_ && !taking_) drop_rest_of_note();
        const bool listens = leading_ || taking_ || incoming_.request;
        if (moving.empty() && delivered && !working_ && !listens) return true;
        if (deadline.passed()) return false;
        changed_.wait_for(lock, pause_in_ending);
    }
}

}  // namespace mpi_bridge
