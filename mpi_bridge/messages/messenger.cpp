// SPDX-License-Identifier: Apache-2.0
#include "messages/messenger.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "core/catching.hpp"

namespace mpi_bridge {
namespace {

// Data moves at this rate at least, or its peer counts as stuck: a long message may take longer
// than the timeout, which is for a peer that makes no progress.
constexpr double slowest_bytes_per_second = 16.0 * 1024 * 1024;
constexpr std::chrono::milliseconds pause_in_ending{1};
// Waits with a longer pause between them are not pieces of one wait.
constexpr Seconds longest_pause_in_wait{1};

tl::unexpected<Failure> still_under_way() {
    return fail(MPIB_ERROR_TIMEOUT, "the message is still under way");
}

tl::unexpected<Failure> unknown_message() {
    return invalid("the handle of the message is unknown, or was released");
}

}  // namespace

Messenger::Messenger(Parts parts)
    : parts_(std::move(parts)),
      protocol_([this](int rank) { return parts_.transport->is_gone(rank); }),
      outbox_(parts_.transport, protocol_),
      listeners_(parts_.transport, parts_.between_looks, *this) {
    watch_.emplace(*parts_.failure, [this](const Failure& cause) {
        const Lock lock(listeners_.mutex());
        down_ = cause;
        // Nobody returns to a caller with this before the transport has let go of the memory: see
        // outcome_of().
        for (const auto& [id, operation] : operations_)
            complete(*operation, cause);
    });
}

Messenger::~Messenger() {
    watch_.reset();
    listeners_.join();
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

template <typename Body>
auto Messenger::while_up(Body&& body) -> decltype(body()) {
    Lock lock(listeners_.mutex());
    if (down_) return tl::unexpected(*down_);
    listeners_.start();
    auto outcome = catching(body);
    if (!outcome) return fail_all(lock, std::move(outcome).error());
    return outcome;
}

Outcome<Messenger::Id> Messenger::send(int to, std::string_view channel, std::int64_t tag,
                                       std::span<const std::byte> data) {
    TRY(admit(to, false));
    return while_up([&]() -> Outcome<Id> {
        const Id id = add({.id = protocol_.send(to, channel, tag, data),
                           .receives = false,
                           .peer = to,
                           .bytes = data.size()});
        TRY(carry_out());
        return id;
    });
}

Outcome<Messenger::Id> Messenger::receive(int from, std::string_view channel, std::int64_t tag,
                                          std::span<std::byte> memory) {
    TRY(admit(from, true));
    return while_up([&]() -> Outcome<Id> {
        const Id id = add({.id = protocol_.receive(from, channel, tag, memory),
                           .receives = true,
                           .peer = from,
                           .bytes = memory.size()});
        TRY(carry_out());
        return id;
    });
}

Done Messenger::tell_closed(int to, int process_set) {
    return while_up([&]() -> Done {
        TRY(outbox_.send(Protocol::SendNote{.to = to,
                                            .kind = Note::Kind::closed,
                                            .serial = static_cast<std::uint32_t>(process_set)}));
        return carry_out();
    });
}

Messenger::Id Messenger::add(Operation operation) {
    const Id id = operation.id;
    operations_.emplace_hint(operations_.end(), id,
                             std::make_shared<Operation>(std::move(operation)));
    return id;
}

Messenger::OperationPointer Messenger::find(Id id) const {
    const auto found = operations_.find(id);
    return found == operations_.end() ? nullptr : found->second;
}

Done Messenger::carry_out() {
    while (const auto action = protocol_.next())
        TRY(std::visit([this](const auto& each) { return act(each); }, *action));
    return {};
}

// An operation may have failed together with everything else; then nothing may touch its memory.
Done Messenger::act(const Protocol::SendData& action) {
    const auto send = find(action.id);
    if (send == nullptr || send->done()) return {};
    begin_to_move(
        *send, action.to,
        TRY(parts_.transport->post_send(action.to, data_tag(action.serial), action.data)));
    return {};
}

Done Messenger::act(const Protocol::ReceiveData& action) {
    const auto receive = find(action.id);
    if (receive == nullptr || receive->done()) return {};
    begin_to_move(
        *receive, action.from,
        TRY(parts_.transport->post_receive(action.from, data_tag(action.serial), action.memory)));
    return {};
}

Done Messenger::act(const Protocol::Complete& action) {
    if (const auto operation = find(action.id)) {
        operation->peer = action.peer;
        complete(*operation, action.failure);
    }
    return {};
}

void Messenger::begin_to_move(Operation& operation, int peer, Request request) {
    operation.peer = peer;
    operation.request = request;
    operation.stage = Operation::Stage::moving;
    operation.moving_since = Clock::now();
    listeners_.changed();
}

void Messenger::complete(Operation& operation, std::optional<Failure> failure) {
    if (operation.done()) return;
    operation.stage = Operation::Stage::done;
    operation.failure = std::move(failure);
    listeners_.changed();
}

bool Messenger::has_place_for(int from, const Note& note) {
    return !down_ && protocol_.has_place_for(from, note);
}

Done Messenger::hear(int from, const Note& note, std::span<const std::byte> data) {
    if (down_) return {};
    TRY(protocol_.hear(from, note, data));
    return carry_out();
}

void Messenger::closed(int from, int process_set) {
    if (parts_.closed) parts_.closed(from, process_set);
}

Outcome<bool> Messenger::look_for_peers_that_left() {
    const auto ranks = protocol_.awaited_peers_that_left();
    if (ranks.empty()) return true;
    // Everything that the peer has sent is here by now, but a note from it may be among those that
    // nobody has heard yet: here, or in the hands of a thread that is taking it in.
    if (listeners_.has_note()) return false;
    for (const int rank : ranks)
        protocol_.peer_left(rank);
    TRY(carry_out());
    return true;
}

Done Messenger::reap_notes() {
    TRY(outbox_.reap());
    return carry_out();
}

tl::unexpected<Failure> Messenger::fail_all(Lock& lock, Failure failure) {
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
    Done data = parts_.transport->wait(request, deadline);
    lock.lock();
    operation.attended = false;
    listeners_.changed_but_for_notes();
    // It may have failed together with everything else.
    if (operation.done()) return {};
    if (data) {
        protocol_.moved(operation.id, Protocol::Moved::whole);
    } else if (data.error().status == MPIB_ERROR_TIMEOUT) {
        return data;
    } else if (operation.receives && data.error().status == MPIB_ERROR_MISMATCH) {
        protocol_.moved(operation.id, Protocol::Moved::withheld);
    } else if (operation.receives && outbox_.says_left(data.error(), operation.peer)) {
        protocol_.moved(operation.id, Protocol::Moved::peer_left);
    } else {
        return fail_all(lock, std::move(data).error());
    }
    if (Done done = catching([this] { return carry_out(); }); !done)
        return fail_all(lock, std::move(done).error());
    return {};
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
    while (!operation.done()) {
        const Seconds patience = parts_.timeout();
        const int peer = operation.peer;
        const Waits::Waiting waiting(peer == any_rank ? nullptr : parts_.waits, peer,
                                     Waits::Lane::direct, operation.wait_began);
        if (operation.moves() && !operation.attended) {
            const Seconds whole =
                patience + Seconds(static_cast<double>(operation.bytes) / slowest_bytes_per_second);
            const auto ends = after(std::max(operation.wait_began, operation.moving_since), whole);
            const Done attended =
                attend(lock, operation, Deadline::at(std::min(deadline.when(), ends)));
            if (attended || operation.done()) continue;
            if (Clock::now() >= ends)
                return fail_all(lock, protocol_.too_late(operation.id, whole));
            if (deadline.passed()) return still_under_way();
            continue;
        }
        const bool waits = operation.waits();
        const auto patience_ends = after(operation.wait_began, patience);
        const auto ends = waits ? std::min(deadline.when(), patience_ends) : deadline.when();
        Done waited = listeners_.wait(lock, waits, Deadline::at(ends));
        // Its own end counts, even if everything else has failed meanwhile.
        if (operation.done()) break;
        TRY(std::move(waited));
        // Nothing is in flight, so only this message fails.
        if (operation.waits() && Clock::now() >= patience_ends) {
            protocol_.give_up(operation.id, patience);
            const Done told = catching([this] { return carry_out(); });
            if (!told) (void)fail_all(lock, told.error());
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
    Lock lock(listeners_.mutex());
    const auto operation = find(id);
    if (operation == nullptr) return std::nullopt;
    if (operation->moves() && !operation->attended)
        (void)attend(lock, *operation, Deadline::in(Seconds(0)));
    if (!operation->done()) return false;
    (void)outcome_of(lock, *operation);
    return true;
}

Done Messenger::wait(Id id, double seconds) {
    Lock lock(listeners_.mutex());
    const auto operation = find(id);
    if (operation == nullptr) return unknown_message();
    TRY(await(lock, *operation, Deadline::in(seconds > 0 ? Seconds(seconds) : no_limit)));
    return outcome_of(lock, *operation);
}

std::optional<int> Messenger::peer(Id id) {
    const Lock lock(listeners_.mutex());
    const auto operation = find(id);
    return operation == nullptr ? std::nullopt : std::optional(operation->peer);
}

Done Messenger::release(Id id) {
    Lock lock(listeners_.mutex());
    const auto operation = find(id);
    if (operation == nullptr) return unknown_message();
    if (operation->receives && operation->waits()) {
        protocol_.cancel(id);
        if (Done done = carry_out(); !done) (void)fail_all(lock, std::move(done).error());
    }
    (void)await(lock, *operation, Deadline::in(no_limit));
    (void)outcome_of(lock, *operation);
    operations_.erase(id);
    return {};
}

void Messenger::shutdown(const Failure& cause) {
    {
        const Lock lock(listeners_.mutex());
        if (!down_) down_ = cause;
        for (const auto& [id, operation] : operations_) {
            if (operation->waits()) complete(*operation, cause);
        }
        listeners_.stop();
    }
    if (parts_.transport != nullptr) parts_.transport->wake();
}

bool Messenger::ended(Deadline deadline) {
    Lock lock(listeners_.mutex());
    for (;;) {
        std::vector<OperationPointer> moving;
        for (const auto& [id, operation] : operations_) {
            if (operation->moves() || operation->attended) moving.push_back(operation);
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
            outbox_.clear();
            listeners_.forget_note();
        }
        const bool delivered = reap_notes().has_value() && outbox_.empty();
        if (moving.empty() && delivered && listeners_.ended()) return true;
        if (deadline.passed()) return false;
        (void)listeners_.wait(lock, false, Deadline::in(pause_in_ending));
    }
}

}  // namespace mpi_bridge
