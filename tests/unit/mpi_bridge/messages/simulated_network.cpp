// SPDX-License-Identifier: Apache-2.0
#include "simulated_network.hpp"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "core/failure.hpp"

namespace message_schedules {

using namespace mpi_bridge;

namespace {

constexpr std::byte scribbled{0xDD};

}  // namespace

void Network::act(int number) {
    Rank& rank = world_.at(number);
    const Protocol::Action action = std::move(*rank.action);
    rank.action.reset();
    std::visit([&](const auto& each) { act(number, rank, each); }, action);
}

void Network::act(int number, Rank& rank, const Protocol::SendNote& action) {
    Note note{.kind = action.kind,
              .serial = action.serial,
              .address = action.address,
              .bytes = action.bytes};
    std::size_t& carried = rank.carried[action.to];
    if (action.kind == Note::Kind::offer || action.kind == Note::Kind::offer_with_data) {
        const std::size_t room = Protocol::most_carried_to_a_rank - carried;
        const bool short_enough = action.bytes <= std::min(Note::most_carried, room);
        if (short_enough != (action.kind == Note::Kind::offer_with_data))
            world_.fault(
                fmt::format("an offer of {} bytes where {} are carried", action.bytes, carried));
        if (short_enough) carry(number, action.to, action.serial, action.bytes);
        rank.latest->with_data = short_enough;
        offers_[{number, action.to, action.serial}] = rank.latest;
    }
    if (action.kind == Note::Kind::withdraw) answered(number, action.to, action.serial);
    if (rank.gone.contains(action.to)) {
        undelivered(number, action.to, note);
    } else {
        notes_[{number, action.to}].push_back(
            {note, {action.carried.begin(), action.carried.end()}});
    }
}

void Network::act(int number, Rank& rank, const Protocol::SendData& action) {
    Posted& send = *rank.posted.at(action.id);
    Transfer& transfer = transfers_[{number, action.to, action.serial}];
    if (transfer.receive == nullptr) world_.fault("data meets a rank that has no place for it");
    if (send.memory.data() != action.data.data()) world_.fault("data of another message");
    send.moving = true;
    transfer.send = &send;
}

void Network::act(int number, Rank& rank, const Protocol::ReceiveData& action) {
    Posted& receive = *rank.posted.at(action.id);
    receive.moving = true;
    Transfer& transfer = transfers_[{action.from, number, action.serial}];
    transfer.receive = &receive;
    transfer.offset = receive.memory.size() - action.memory.size();
    if (receive.memory.data() + transfer.offset != action.memory.data())
        world_.fault("memory of another message");
    if (transfer.offset != (transfer.sent_ahead ? Note::room : 0))
        world_.fault("another part of the message than what follows");
}

void Network::act(int number, Rank&, const Protocol::SendNoData& action) {
    Transfer& transfer = transfers_[{number, action.to, action.serial}];
    if (transfer.receive == nullptr) world_.fault("an answer without data meets no receive");
    transfer.withheld = true;
}

void Network::act(int number, Rank& rank, const Protocol::Complete& action) {
    const auto found = rank.posted.find(action.id);
    if (found == rank.posted.end()) {
        world_.fault(fmt::format("rank {} completes message {} twice", number, action.id));
        return;
    }
    Posted& posted = *found->second;
    rank.posted.erase(found);
    posted.complete = true;
    posted.found_peer = action.peer;
    if (action.failure) posted.status = action.failure->status;
    for (auto& [key, transfer] : transfers_) {
        if (transfer.receive != &posted) continue;
        transfer.receive = nullptr;
        transfer.sent_ahead = false;
    }
    std::erase_if(transfers_, [](const auto& each) {
        const Transfer& transfer = each.second;
        return transfer.receive == nullptr && transfer.send == nullptr && !transfer.sent_ahead;
    });
    // The memory is the program's again.
    posted.at_the_end = posted.memory;
    if (posted.receives && posted.well()) world_.take(posted);
    if (posted.receives && posted.known_gone.contains(action.peer) &&
        (posted.well() || posted.peer == Protocol::any_rank))
        world_.fault("a receive takes what was offered by a rank that had left before");
    std::fill(posted.memory.begin(), posted.memory.end(), scribbled);
}

void Network::carry(int from, int to, std::uint32_t serial, std::size_t bytes) {
    unanswered_[{from, to, serial}] = bytes;
    world_.at(from).carried[to] += bytes;
}

void Network::answered(int from, int to, std::uint32_t serial) {
    const auto found = unanswered_.find({from, to, serial});
    if (found == unanswered_.end()) return;
    world_.at(from).carried[to] -= found->second;
    unanswered_.erase(found);
}

void Network::forget_unanswered(int from, int to) {
    std::erase_if(unanswered_, [&](const auto& each) {
        const auto& [sender, target, serial] = each.first;
        return sender == from && target == to;
    });
    world_.at(from).carried[to] = 0;
}

void Network::deliver(int from, int to) {
    auto& queue = notes_[{from, to}];
    const auto [note, data] = queue.front();
    queue.pop_front();
    if (note.kind == Note::Kind::accept || note.kind == Note::Kind::refuse)
        answered(to, from, note.serial);
    if (note.kind == Note::Kind::withdraw) offers_.at({from, to, note.serial})->withdrawn = true;
    Protocol& protocol = world_.at(to).protocol;
    std::span<const std::byte> here(data);
    if (note.bytes_behind() > 0 && protocol.has_place_for(from, note)) {
        here = here.first(Note::room);
        transfers_[{from, to, note.serial}] = {.data = Bytes(data.begin() + Note::room, data.end()),
                                               .sent_ahead = true};
        offers_.at({from, to, note.serial})->taken_before = true;
        ++world_.result.straight;
    }
    if (const Done heard = protocol.hear(from, note, here); !heard)
        world_.fault(heard.error().text);
}

void Network::undelivered(int from, int to, const Note& note) {
    // An answer has the number of the other rank's message.
    if (note.kind == Note::Kind::offer_with_data) answered(from, to, note.serial);
    world_.at(from).protocol.undelivered(to, note.kind, note.serial);
    const auto offer = offers_.find({from, to, note.serial});
    if (note.kind == Note::Kind::offer || note.kind == Note::Kind::offer_with_data)
        world_.at(from).undelivered.push_back(offer->second);
}

void Network::send_done(const Key& key) {
    Transfer& transfer = transfers_.at(key);
    Posted& send = *std::exchange(transfer.send, nullptr);
    transfer.data = send.memory;
    end_of_data(send, Protocol::Moved::whole);
}

void Network::receive_done(const Key& key) {
    const Transfer transfer = std::move(transfers_.at(key));
    transfers_.erase(key);
    if (transfer.data) {
        Bytes& memory = transfer.receive->memory;
        if (transfer.offset + transfer.data->size() == memory.size()) {
            std::copy(transfer.data->begin(), transfer.data->end(),
                      memory.begin() + static_cast<std::ptrdiff_t>(transfer.offset));
        } else {
            world_.fault("data of another length than accepted");
        }
    }
    const auto other = transfer.withheld ? Protocol::Moved::withheld : Protocol::Moved::peer_left;
    end_of_data(*transfer.receive, transfer.data ? Protocol::Moved::whole : other);
}

void Network::end_of_data(const Posted& posted, Protocol::Moved how) {
    Rank& rank = world_.at(posted.rank);
    for (const auto& [id, each] : rank.posted) {
        if (each != &posted) continue;
        rank.protocol.moved(id, how);
        return;
    }
}

void Network::notice(int number, int peer) {
    Rank& rank = world_.at(number);
    rank.gone.insert(peer);
    const auto lost = std::exchange(notes_[{number, peer}], {});
    for (const auto& [note, data] : lost)
        undelivered(number, peer, note);
    std::erase_if(transfers_, [&](const auto& each) {
        return std::get<0>(each.first) == number && std::get<1>(each.first) == peer;
    });
}

}  // namespace message_schedules
