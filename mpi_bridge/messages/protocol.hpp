// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "core/deadline.hpp"
#include "core/failure.hpp"
#include "messages/matching.hpp"
#include "messages/note.hpp"

namespace mpi_bridge {

// What one rank does for the messages of mpi_bridge_messages.h: a state machine without threads,
// clocks or sockets. It takes events, and answers with actions, which next() returns in order.
//
// A sender first offers a message in a note. When the receiver has a matching receive, it posts the
// receive of the data and answers with a second note, upon which the sender sends the data. So data
// never meets a rank that has no place for it, and both sides learn of lengths that differ. Short
// data travels with the offer, as long as the receiver does not have to keep too much of it.
class Protocol {
  public:
    using Id = std::int64_t;
    static constexpr int any_rank = Matching::any_rank;
    // What a receiver has to keep at most of the data that one sender has sent before its receives
    // were posted. Offers beyond that travel without their data.
    static constexpr std::size_t most_carried_to_a_rank = 64UL * 1024;

    // Notes between two ranks must arrive in the order of these actions.
    struct SendNote {
        int to = 0;
        Note::Kind kind = Note::Kind::offer;
        std::uint32_t serial = 0;
        MessageAddress address{};
        std::uint64_t bytes = 0;
        std::span<const std::byte> carried{};  // the memory of the send
    };
    // The data has the tag data_tag(serial). The event moved() must follow.
    struct SendData {
        Id id = 0;
        int to = 0;
        std::uint32_t serial = 0;
        std::span<const std::byte> data{};
    };
    struct ReceiveData {
        Id id = 0;
        int from = 0;
        std::uint32_t serial = 0;
        std::span<std::byte> memory{};
    };
    // Sends an empty message with no_data_tag(serial), which ends a receive whose message this rank
    // has given up.
    struct SendNoData {
        int to = 0;
        std::uint32_t serial = 0;
    };
    // The last action for a message: the caller's memory is its own again.
    struct Complete {
        Id id = 0;
        int peer = any_rank;
        std::optional<Failure> failure{};
    };
    using Action = std::variant<SendNote, SendData, ReceiveData, SendNoData, Complete>;

    // `is_gone` says whether a rank has left, so that it can no longer send what it has offered.
    explicit Protocol(std::function<bool(int rank)> is_gone) : is_gone_(std::move(is_gone)) {}

    // The oldest action that has not been returned yet.
    [[nodiscard]] std::optional<Action> next();

    // The program has posted a message. Its memory is used until the message is complete.
    [[nodiscard]] Id send(int to, std::string_view channel, std::int64_t tag,
                          std::span<const std::byte> data);
    [[nodiscard]] Id receive(int from, std::string_view channel, std::int64_t tag,
                             std::span<std::byte> memory);
    // The program does not want to receive any more. Has no effect once the receive is matched.
    void cancel(Id id);
    // Gives a message up that nobody has matched in this time. Has no effect once it is matched.
    void give_up(Id id, Seconds patience);
    [[nodiscard]] Failure too_late(Id id, Seconds patience) const;

    // Whether a receive that takes this offer has memory for its data.
    [[nodiscard]] bool has_place_for(int from, const Note& note) const;
    // A peer has sent a note, and the data that it carries. If has_place_for() is true, that may be
    // the data inside the note only: the rest then follows like the data of a message that was
    // accepted. Fails if they cannot be understood.
    [[nodiscard]] Done hear(int from, const Note& note, std::span<const std::byte> data);
    // A note, or an answer without data, could not be delivered because its target has left.
    void undelivered(int to, Note::Kind kind, std::uint32_t serial);

    // The peers that have left though something waits for them. Once everything that such a peer
    // has sent has been heard, call peer_left().
    [[nodiscard]] std::set<int> awaited_peers_that_left() const;
    void peer_left(int rank);

    enum class Moved {
        whole,
        withheld,   // the sender has answered with SendNoData
        peer_left,  // before it has sent the data
    };
    // The data of a message has been moved.
    void moved(Id id, Moved how);

  private:
    struct Message {
        bool receives = false;
        bool moving = false;  // it is matched, and its data is moved
        // Of a receive: the sender has sent the data with the offer, so it does not wait for the
        // answer.
        bool data_is_sent = false;
        int peer = any_rank;
        std::uint32_t serial = 0;  // the sender's number; of a receive: once it is matched
        std::string channel{};
        MessageAddress address{};
        std::span<const std::byte> data{};  // of a send
        std::span<std::byte> memory{};      // of a receive

        [[nodiscard]] std::size_t bytes() const { return receives ? memory.size() : data.size(); }
        // "receiving from rank 1 (tag 2)", with `more` before the closing parenthesis.
        [[nodiscard]] std::string what(std::string_view more = {}) const;
    };
    // An offer without an answer. Its message may have been given up meanwhile.
    struct Offered {
        Id id = 0;
        bool with_data = false;
        std::size_t bytes = 0;
    };
    struct Peer {
        std::uint32_t latest_serial = 0;
        std::size_t carried = 0;  // bytes of the offers with data that have no answer
    };

    [[nodiscard]] std::optional<Matching::Offer> match(Id id, const Message& receive);
    // A receive takes an offer. `data` is what the offer carries.
    void take(Id receive, const Matching::Offer& offer, std::span<const std::byte> data);
    void hear_offer(int from, const Note& note, std::span<const std::byte> data);
    void hear_answer(int from, const Note& note);
    [[nodiscard]] std::optional<Offered> take_offered(int to, std::uint32_t serial);
    void complete(Id id, std::optional<Failure> failure);

    std::function<bool(int)> is_gone_;
    std::deque<Action> actions_;
    std::map<Id, Message> messages_;  // that are not complete
    Matching matching_;
    std::map<std::pair<int, std::uint32_t>, Offered> offered_;  // by peer and serial
    std::map<int, Peer> peers_;
    Id latest_id_ = 0;
};

}  // namespace mpi_bridge
