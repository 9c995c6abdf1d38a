// SPDX-License-Identifier: Apache-2.0
#include "messages/protocol.hpp"

#include <algorithm>

#include <fmt/core.h>

#include "core/sha256.hpp"

namespace mpi_bridge {
namespace {

MessageAddress address_of(std::string_view channel, std::int64_t tag) {
    MessageAddress address;
    const auto digest = Sha256().add(std::as_bytes(std::span(channel))).finish();
    std::copy_n(digest.begin(), address.channel.size(), address.channel.begin());
    address.tag = tag;
    return address;
}

Failure left(int peer, const std::string& what) {
    return {.status = MPIB_ERROR_PEER_LOST,
            .text = fmt::format("{}: that rank has left the job step (mpib_finalize)", what),
            .of_rank = peer};
}

Failure given_up(const std::string& what) {
    return {.status = MPIB_ERROR_TIMEOUT,
            .text = fmt::format("{}: that rank had given this message up, because nobody received "
                                "it in time",
                                what)};
}

Failure mismatch(std::string text) {
    return {.status = MPIB_ERROR_MISMATCH, .text = std::move(text)};
}

}  // namespace

std::string Protocol::Message::what(std::string_view more) const {
    const std::string who = peer == any_rank ? "any rank" : fmt::format("rank {}", peer);
    const std::string where = channel.empty() ? "" : fmt::format("channel \"{}\", ", channel);
    return fmt::format("{} {} ({}tag {}{})", receives ? "receiving from" : "sending to", who, where,
                       address.tag, more);
}

std::optional<Protocol::Action> Protocol::next() {
    if (actions_.empty()) return std::nullopt;
    std::optional<Action> action(std::move(actions_.front()));
    actions_.pop_front();
    return action;
}

Protocol::Id Protocol::send(int to, std::string_view channel, std::int64_t tag,
                            std::span<const std::byte> data) {
    Peer& peer = peers_[to];
    const std::uint32_t serial = ++peer.latest_serial;
    const Id id = ++latest_id_;
    Message message{.peer = to,
                    .serial = serial,
                    .channel = std::string(channel),
                    .address = address_of(channel, tag),
                    .data = data};
    const bool with_data =
        data.size() <= std::min(Note::most_carried, most_carried_to_a_rank - peer.carried);
    SendNote offer{.to = to,
                   .kind = with_data ? Note::Kind::offer_with_data : Note::Kind::offer,
                   .serial = serial,
                   .address = message.address,
                   .bytes = data.size()};
    if (with_data) {
        offer.carried = data;
        peer.carried += data.size();
    }
    messages_.emplace_hint(messages_.end(), id, std::move(message));
    offered_[{to, serial}] = {.id = id, .with_data = with_data, .bytes = data.size()};
    actions_.emplace_back(offer);
    return id;
}

Protocol::Id Protocol::receive(int from, std::string_view channel, std::int64_t tag,
                               std::span<std::byte> memory) {
    const Id id = ++latest_id_;
    Message message{.receives = true,
                    .peer = from,
                    .channel = std::string(channel),
                    .address = address_of(channel, tag),
                    .memory = memory};
    const auto offer = match(id, message);
    messages_.emplace_hint(messages_.end(), id, std::move(message));
    if (offer) take(id, *offer, offer->data);
    return id;
}

// The offer of a rank that has left stays behind, but its data will never come.
std::optional<Matching::Offer> Protocol::match(Id id, const Message& receive) {
    auto offer = matching_.post({id, receive.peer, receive.address});
    while (offer && is_gone_(offer->from)) {
        matching_.forget_offers_of(offer->from);
        offer = matching_.post({id, receive.peer, receive.address});
    }
    return offer;
}

void Protocol::take(Id id, const Matching::Offer& offer, std::span<const std::byte> data) {
    Message& message = messages_.at(id);
    message.peer = offer.from;
    message.serial = offer.serial;
    const bool fits = message.bytes() == offer.bytes;
    const SendNote answer{.to = offer.from,
                          .kind = fits ? Note::Kind::accept : Note::Kind::refuse,
                          .serial = offer.serial,
                          .bytes = message.bytes()};
    if (!fits) {
        actions_.emplace_back(answer);
        complete(id, mismatch(fmt::format("{}: it sent {} bytes where {} were expected",
                                          message.what(), offer.bytes, message.bytes())));
        return;
    }
    if (offer.withdrawn) {
        complete(id, given_up(message.what()));
        return;
    }
    if (offer.with_data) std::copy(data.begin(), data.end(), message.memory.begin());
    if (offer.with_data && data.size() == offer.bytes) {
        actions_.emplace_back(answer);
        complete(id, std::nullopt);
        return;
    }
    // Unless the data is on its way already, its receive is posted before the sender may send it.
    message.moving = true;
    message.data_is_sent = offer.with_data;
    actions_.emplace_back(ReceiveData{.id = id,
                                      .from = offer.from,
                                      .serial = offer.serial,
                                      .memory = message.memory.subspan(data.size())});
    actions_.emplace_back(answer);
}

void Protocol::cancel(Id id) {
    if (!matching_.withdraw(id)) return;
    complete(id, Failure{.status = MPIB_ERROR_INVALID_ARGUMENT,
                         .text = "the receive was withdrawn by another thread"});
}

// An offer stays with its receiver, and hear_answer() answers when it is accepted after all.
void Protocol::give_up(Id id, Seconds patience) {
    const auto found = messages_.find(id);
    if (found == messages_.end() || found->second.moving) return;
    const bool receives = found->second.receives;
    const int peer = found->second.peer;
    const std::uint32_t serial = found->second.serial;
    if (receives) matching_.withdraw(id);
    complete(id, too_late(id, patience));
    if (receives) return;
    const auto offered = offered_.find({peer, serial});
    if (offered == offered_.end() || !offered->second.with_data) return;
    // Nobody answers this note; an answer that is under way is for nobody.
    (void)take_offered(peer, serial);
    actions_.emplace_back(SendNote{.to = peer, .kind = Note::Kind::withdraw, .serial = serial});
}

Failure Protocol::too_late(Id id, Seconds patience) const {
    const Message& message = messages_.at(id);
    return {.status = MPIB_ERROR_TIMEOUT,
            .text = fmt::format("{}: timed out after {:g} s: that rank is late, stuck, "
                                "or did not {}",
                                message.what(fmt::format(", {} bytes", message.bytes())),
                                patience.count(), message.receives ? "send" : "receive")};
}

namespace {

Matching::Offer offer_of(int from, const Note& note) {
    return {.from = from,
            .serial = note.serial,
            .address = note.address,
            .bytes = note.bytes,
            .with_data = note.kind == Note::Kind::offer_with_data};
}

}  // namespace

bool Protocol::has_place_for(int from, const Note& note) const {
    const auto receive = matching_.find(offer_of(from, note));
    return receive && messages_.at(receive->id).bytes() == note.bytes && !is_gone_(from);
}

Done Protocol::hear(int from, const Note& note, std::span<const std::byte> data) {
    switch (note.kind) {
        case Note::Kind::offer_with_data: {
            const bool is_whole = data.size() == note.bytes;
            const bool rest_is_behind = data.size() + note.bytes_behind() == note.bytes;
            if (!is_whole && !(rest_is_behind && has_place_for(from, note))) break;
            [[fallthrough]];
        }
        case Note::Kind::offer:
            hear_offer(from, note, data);
            return {};
        case Note::Kind::withdraw:
            matching_.give_up(from, note.serial);
            return {};
        case Note::Kind::accept:
        case Note::Kind::refuse:
            hear_answer(from, note);
            return {};
        case Note::Kind::closed:
            break;  // not about a message
    }
    return fail(MPIB_ERROR_INTERNAL,
                fmt::format("rank {} has sent a note that this rank does not understand; do all "
                            "ranks use the same version of mpi_bridge?",
                            from));
}

void Protocol::hear_offer(int from, const Note& note, std::span<const std::byte> data) {
    if (is_gone_(from)) return;
    const auto offer = offer_of(from, note);
    if (const auto receive = matching_.hear(offer, data)) take(receive->id, offer, data);
}

void Protocol::hear_answer(int from, const Note& note) {
    const auto offered = take_offered(from, note.serial);
    if (!offered) return;
    const bool accepted = note.kind == Note::Kind::accept;
    const auto found = messages_.find(offered->id);
    if (found == messages_.end()) {
        // It was given up. A receive that has accepted carried data is complete as well.
        if (accepted && !offered->with_data)
            actions_.emplace_back(SendNoData{.to = from, .serial = note.serial});
        return;
    }
    Message& send = found->second;
    if (!accepted) {
        complete(offered->id, mismatch(fmt::format("{}: it expected {} bytes where {} were sent",
                                                   send.what(), note.bytes, send.bytes())));
    } else if (offered->with_data) {
        complete(offered->id, std::nullopt);
    } else {
        send.moving = true;
        actions_.emplace_back(
            SendData{.id = offered->id, .to = from, .serial = note.serial, .data = send.data});
    }
}

void Protocol::undelivered(int to, Note::Kind kind, std::uint32_t serial) {
    if (kind == Note::Kind::offer || kind == Note::Kind::offer_with_data) {
        const auto offered = take_offered(to, serial);
        const auto send = offered ? messages_.find(offered->id) : messages_.end();
        if (send != messages_.end()) complete(send->first, left(to, send->second.what()));
        return;
    }
    if (kind != Note::Kind::accept) return;
    const auto accepted = std::find_if(messages_.begin(), messages_.end(), [&](const auto& each) {
        const Message& message = each.second;
        return message.receives && message.moving && !message.data_is_sent && message.peer == to &&
               message.serial == serial;
    });
    if (accepted != messages_.end()) complete(accepted->first, left(to, accepted->second.what()));
}

std::set<int> Protocol::awaited_peers_that_left() const {
    std::set<int> ranks;
    for (const auto& [id, message] : messages_) {
        if (message.moving || message.peer == any_rank || ranks.contains(message.peer)) continue;
        if (is_gone_(message.peer)) ranks.insert(message.peer);
    }
    return ranks;
}

void Protocol::peer_left(int rank) {
    matching_.forget_offers_of(rank);
    for (auto each = messages_.begin(); each != messages_.end();) {
        const auto& [id, message] = *each++;
        if (message.moving || message.peer != rank) continue;
        if (message.receives) {
            matching_.withdraw(id);
        } else {
            (void)take_offered(rank, message.serial);
        }
        complete(id, left(rank, message.what()));
    }
}

void Protocol::moved(Id id, Moved how) {
    const auto found = messages_.find(id);
    if (found == messages_.end()) return;
    const Message& message = found->second;
    std::optional<Failure> failure;
    if (how == Moved::withheld) failure = given_up(message.what());
    if (how == Moved::peer_left) failure = left(message.peer, message.what());
    complete(id, std::move(failure));
}

std::optional<Protocol::Offered> Protocol::take_offered(int to, std::uint32_t serial) {
    const auto found = offered_.find({to, serial});
    if (found == offered_.end()) return std::nullopt;
    const Offered offered = found->second;
    offered_.erase(found);
    if (offered.with_data) peers_[to].carried -= offered.bytes;
    return offered;
}

void Protocol::complete(Id id, std::optional<Failure> failure) {
    const auto message = messages_.find(id);
    actions_.emplace_back(
        Complete{.id = id, .peer = message->second.peer, .failure = std::move(failure)});
    messages_.erase(message);
}

}  // namespace mpi_bridge
