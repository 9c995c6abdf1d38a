// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "messages/note.hpp"
#include "messages/protocol.hpp"
#include "simulated_world.hpp"

namespace message_schedules {

// The network between the ranks. It carries out what their protocols ask for, and tells them what
// becomes of it.
class Network {
    using Note = mpi_bridge::Note;
    using Protocol = mpi_bridge::Protocol;

  public:
    using Key = std::tuple<int, int, std::uint32_t>;  // sender, receiver, serial

    // The data of a message on its way.
    struct Transfer {
        Posted* send = nullptr;  // until it is done on the sender's side
        Posted* receive = nullptr;
        std::optional<Bytes> data{};
        bool sent_ahead = false;  // the data was there before the receive
        std::size_t offset = 0;   // of the data in the memory of the receive
        bool withheld = false;
    };

    explicit Network(World& world) : world_(world) {}

    // Whether there are notes that can be delivered.
    [[nodiscard]] bool has_notes(int from, int to) const {
        const auto found = notes_.find({from, to});
        return found != notes_.end() && !found->second.empty();
    }
    [[nodiscard]] const std::map<Key, Transfer>& transfers() const { return transfers_; }

    // Carries out the next action of a rank.
    void act(int number);
    void deliver(int from, int to);
    // The sender's side of a transfer may be done before the receiver's.
    void send_done(const Key& key);
    void receive_done(const Key& key);
    // The rank learns that its peer has left. What the peer has sent is here.
    void notice(int number, int peer);
    // The sender has heard that the other rank has left.
    void forget_unanswered(int from, int to);

  private:
    void act(int number, Rank& rank, const Protocol::SendNote& action);
    void act(int number, Rank& rank, const Protocol::SendData& action);
    void act(int number, Rank& rank, const Protocol::ReceiveData& action);
    void act(int number, Rank& rank, const Protocol::SendNoData& action);
    void act(int number, Rank& rank, const Protocol::Complete& action);
    void carry(int from, int to, std::uint32_t serial, std::size_t bytes);
    // The sender has heard the answer to its offer, or does not wait for it any more.
    void answered(int from, int to, std::uint32_t serial);
    void undelivered(int from, int to, const Note& note);
    void end_of_data(const Posted& posted, Protocol::Moved how);

    World& world_;
    // A note, and the data that it carries.
    struct Letter {
        Note note;
        Bytes data;
    };
    std::map<std::pair<int, int>, std::deque<Letter>> notes_;  // by sender and receiver
    std::map<Key, Posted*> offers_;
    std::map<Key, Transfer> transfers_;
    std::map<Key, std::size_t> unanswered_;  // bytes of the offers with data
};

}  // namespace message_schedules
