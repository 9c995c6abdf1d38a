// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "messages/protocol.hpp"

namespace message_schedules {
namespace {

using namespace mpi_bridge;
using Bytes = std::vector<std::byte>;

constexpr std::byte untouched{0xEE};
constexpr std::byte scribbled{0xDD};

// A message that a rank's program has posted.
struct Posted {
    int rank = 0;
    bool receives = false;
    int peer = 0;
    std::int64_t tag = 0;
    std::string channel{};
    int number = 0;  // in the order in which its rank has posted messages
    Bytes memory{};
    std::set<int> known_gone{};  // the ranks that its rank knew to have left when it was posted
    bool moving = false;
    bool complete = false;
    mpib_status status = MPIB_OK;
    int found_peer = 0;      // when it was complete
    Bytes at_the_end{};      // of a receive: its memory when it was complete
    bool matched = false;    // of a send: a receive has taken its data
    bool with_data = false;  // of a send: its data has travelled with the offer
    bool withdrawn = false;  // of a send: its receiver has heard that it was given up

    [[nodiscard]] bool well() const { return complete && status == MPIB_OK; }
};

// The data of a message on its way.
struct Transfer {
    Posted* send = nullptr;  // until it is done on the sender's side
    Posted* receive = nullptr;
    std::optional<Bytes> data{};
    bool withheld = false;
};

struct Rank {
    explicit Rank(std::function<bool(int)> is_gone) : protocol(std::move(is_gone)) {}

    Protocol protocol;
    std::optional<Protocol::Action> action{};  // the next one
    std::map<Protocol::Id, Posted*> posted{};  // that are not complete
    Posted* latest = nullptr;
    std::vector<const Posted*> undelivered{};  // must be complete after what is under way
    int left_to_post = 0;
    int count = 0;
    bool left = false;
    std::set<int> gone{};                  // the ranks that this one knows to have left
    std::map<int, std::size_t> carried{};  // by peer: bytes of the offers with data, unanswered
};

struct Event {
    enum class Kind {
        act,
        post,
        deliver,
        send_done,
        receive_done,
        cancel,
        give_up,
        leave,
        notice,
        look
    };
    Kind kind = Kind::act;
    int rank = 0;
    int peer = 0;
    std::uint32_t serial = 0;
};

class Simulation {
  public:
    explicit Simulation(std::uint64_t seed) : random_(seed) {
        const int size = between(2, 4);
        const bool bursts = chance(5);
        for (int rank = 0; rank < size; ++rank) {
            ranks_.push_back(std::make_unique<Rank>(
                [this, rank](int peer) { return at(rank).gone.contains(peer); }));
            at(rank).left_to_post = bursts ? between(0, 150) : between(0, 16);
        }
        bursts_ = bursts;
        cancels_ = chance(50);
        gives_up_ = chance(50);
        may_leave_ = chance(40);
        mismatches_ = chance(40);
        tells_of_lost_data_ = chance(50);
    }

    Result run() {
        try {
            run_to_the_end();
        } catch (const std::exception& exception) {
            fault(exception.what());
        }
        return result_;
    }

  private:
    using Key = std::tuple<int, int, std::uint32_t>;  // sender, receiver, serial

    void run_to_the_end() {
        while (result_.fault.empty()) {
            if (++result_.events > 100'000) {
                fault("no end after 100,000 events");
                break;
            }
            if (one_event()) continue;
            // Nothing can happen any more but that the programs give up.
            if (!draining_) check_that_nothing_is_stuck();
            draining_ = true;
            if (!give_one_up()) break;
        }
        if (result_.fault.empty()) check_ends();
    }

    int between(int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }
    Rank& at(int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
    [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
    void fault(std::string text) {
        if (result_.fault.empty()) result_.fault = std::move(text);
    }

    // Does one of the things that can happen next. False: nothing can.
    bool one_event() {
        events_.clear();
        for (int rank = 0; rank < size(); ++rank)
            add_events(rank);
        if (events_.empty()) return false;
        const Event event =
            events_[static_cast<std::size_t>(between(0, static_cast<int>(events_.size()) - 1))];
        play(event);
        if (Rank& rank = at(event.rank); !rank.action) rank.action = rank.protocol.next();
        return true;
    }

    void add_events(int number) {
        using Kind = Event::Kind;
        Rank& rank = at(number);
        if (rank.left) return;
        // A rank carries out what its protocol asks for before it takes the next event.
        if (rank.action) {
            events_.push_back({Kind::act, number});
            return;
        }
        for (const Posted* const posted : std::exchange(rank.undelivered, {}))
            if (!posted->complete) fault("a message waits though its offer could not be delivered");
        if (rank.left_to_post > 0) events_.push_back({Kind::post, number});
        for (int peer = 0; peer < size(); ++peer) {
            if (!notes_[{peer, number}].empty()) events_.push_back({Kind::deliver, number, peer});
            if (at(peer).left && !rank.gone.contains(peer))
                events_.push_back({Kind::notice, number, peer});
        }
        for (const auto& [key, transfer] : transfers_) {
            const auto& [from, to, serial] = key;
            if (from == number && transfer.send != nullptr)
                events_.push_back({Kind::send_done, number, to, serial});
            const bool peer_left =
                tells_of_lost_data_ && rank.gone.contains(from) && !transfer.send;
            if (to == number && transfer.receive != nullptr &&
                (transfer.data || transfer.withheld || peer_left))
                events_.push_back({Kind::receive_done, number, from, serial});
        }
        // A busy network is more likely than a program that gives up.
        if (cancels_ && !rank.posted.empty() && chance(4))
            events_.push_back({Kind::cancel, number});
        if (gives_up_ && !rank.posted.empty() && chance(4))
            events_.push_back({Kind::give_up, number});
        if (may_leave_ && !somebody_left_ && can_leave(number) && chance(2))
            events_.push_back({Kind::leave, number});
        if (can_look(number)) events_.push_back({Kind::look, number});
    }

    void play(const Event& event) {
        Rank& rank = at(event.rank);
        switch (event.kind) {
            case Event::Kind::act:
                act(event.rank);
                break;
            case Event::Kind::post:
                post(event.rank);
                break;
            case Event::Kind::deliver:
                deliver(event.peer, event.rank);
                break;
            case Event::Kind::send_done:
                send_done({event.rank, event.peer, event.serial});
                break;
            case Event::Kind::receive_done:
                receive_done({event.peer, event.rank, event.serial});
                break;
            case Event::Kind::cancel:
                if (const auto id = any_posted(rank); rank.posted.at(id)->receives)
                    rank.protocol.cancel(id);
                break;
            case Event::Kind::give_up:
                rank.protocol.give_up(any_posted(rank), Seconds(1));
                break;
            case Event::Kind::leave:
                leave(event.rank);
                break;
            case Event::Kind::notice:
                notice(event.rank, event.peer);
                break;
            case Event::Kind::look:
                for (const int peer : rank.protocol.awaited_peers_that_left()) {
                    rank.protocol.peer_left(peer);
                    forget_unanswered(event.rank, peer);
                }
                break;
        }
    }

    Protocol::Id any_posted(const Rank& rank) {
        auto found = rank.posted.begin();
        std::advance(found, between(0, static_cast<int>(rank.posted.size()) - 1));
        return found->first;
    }

    std::size_t any_length() {
        if (bursts_) return Note::most_carried - static_cast<std::size_t>(between(0, 1));
        switch (between(0, 3)) {
            case 0:
                return Note::most_carried;
            case 1:
                return Note::most_carried + 1;
            default:
                return 16;
        }
    }

    void post(int number) {
        Rank& rank = at(number);
        --rank.left_to_post;
        Posted& posted = *all_.emplace_back(std::make_unique<Posted>());
        posted.rank = number;
        posted.known_gone = rank.gone;
        choose(posted);
        posted.number = rank.count++;
        // Messages of one tag have one length, so that they fit each other.
        std::size_t length = posted.tag == 0 ? 16 : any_length_of_ones();
        if (mismatches_ && chance(10)) ++length;
        posted.memory.assign(length, untouched);
        Protocol::Id id = 0;
        if (posted.receives) {
            id = rank.protocol.receive(posted.peer, posted.channel, posted.tag, posted.memory);
        } else {
            // Each message has contents of its own.
            const std::uint64_t key = all_.size();
            std::memcpy(posted.memory.data(), &key, sizeof key);
            contents_.emplace(posted.memory, &posted);
            id = rank.protocol.send(posted.peer, posted.channel, posted.tag, posted.memory);
        }
        rank.posted.emplace(id, &posted);
        rank.latest = &posted;
    }

    // Often what another rank waits for.
    void choose(Posted& posted) {
        const Posted& other =
            *all_[static_cast<std::size_t>(between(0, static_cast<int>(all_.size()) - 1))];
        const bool for_this = other.rank != posted.rank &&
                              (other.peer == posted.rank || other.peer == Protocol::any_rank);
        if (!bursts_ && for_this && !other.complete && !other.moving) {
            posted.receives = !other.receives;
            posted.peer = other.rank;
            posted.tag = other.tag;
            posted.channel = other.channel;
        } else {
            posted.receives = bursts_ ? posted.rank != 0 : chance(50);
            posted.peer = bursts_ ? (posted.rank == 0 ? 1 : 0) : between(0, size() - 2);
            if (!bursts_ && posted.peer >= posted.rank) ++posted.peer;
            posted.tag = between(0, 1);
            if (chance(20)) posted.channel.assign(1, 'c');
        }
        if (posted.receives && chance(30)) posted.peer = Protocol::any_rank;
    }

    std::size_t any_length_of_ones() {
        if (!length_of_ones_) length_of_ones_ = any_length();
        return *length_of_ones_;
    }

    void act(int number) {
        Rank& rank = at(number);
        const Protocol::Action action = std::move(*rank.action);
        rank.action.reset();
        std::visit([&](const auto& each) { act(number, rank, each); }, action);
    }

    void act(int number, Rank& rank, const Protocol::SendNote& action) {
        Note note{.kind = action.kind,
                  .serial = action.serial,
                  .address = action.address,
                  .bytes = action.bytes};
        std::copy(action.carried.begin(), action.carried.end(), note.carried.begin());
        std::size_t& carried = rank.carried[action.to];
        if (action.kind == Note::Kind::offer || action.kind == Note::Kind::offer_with_data) {
            const std::size_t room = Protocol::most_carried_to_a_rank - carried;
            const bool short_enough = action.bytes <= std::min(Note::most_carried, room);
            if (short_enough != (action.kind == Note::Kind::offer_with_data))
                fault(fmt::format("an offer of {} bytes where {} are carried", action.bytes,
                                  carried));
            if (short_enough) carry(number, action.to, action.serial, action.bytes);
            rank.latest->with_data = short_enough;
            offers_[{number, action.to, action.serial}] = rank.latest;
        }
        if (action.kind == Note::Kind::withdraw) answered(number, action.to, action.serial);
        if (rank.gone.contains(action.to)) {
            undelivered(number, action.to, note);
        } else {
            notes_[{number, action.to}].push_back(note);
        }
    }

    void act(int number, Rank& rank, const Protocol::SendData& action) {
        Posted& send = *rank.posted.at(action.id);
        Transfer& transfer = transfers_[{number, action.to, action.serial}];
        if (transfer.receive == nullptr) fault("data meets a rank that has no place for it");
        if (send.memory.data() != action.data.data()) fault("data of another message");
        send.moving = true;
        transfer.send = &send;
    }

    void act(int number, Rank& rank, const Protocol::ReceiveData& action) {
        Posted& receive = *rank.posted.at(action.id);
        if (receive.memory.data() != action.memory.data()) fault("memory of another message");
        receive.moving = true;
        transfers_[{action.from, number, action.serial}].receive = &receive;
    }

    void act(int number, Rank&, const Protocol::SendNoData& action) {
        Transfer& transfer = transfers_[{number, action.to, action.serial}];
        if (transfer.receive == nullptr) fault("an answer without data meets no receive");
        transfer.withheld = true;
    }

    void act(int number, Rank& rank, const Protocol::Complete& action) {
        const auto found = rank.posted.find(action.id);
        if (found == rank.posted.end()) {
            fault(fmt::format("rank {} completes message {} twice", number, action.id));
            return;
        }
        Posted& posted = *found->second;
        rank.posted.erase(found);
        posted.complete = true;
        posted.found_peer = action.peer;
        if (action.failure) posted.status = action.failure->status;
        for (auto& [key, transfer] : transfers_)
            if (transfer.receive == &posted) transfer.receive = nullptr;
        std::erase_if(transfers_, [](const auto& each) {
            return each.second.receive == nullptr && each.second.send == nullptr;
        });
        // The memory is the program's again.
        posted.at_the_end = posted.memory;
        if (posted.receives && posted.well()) take(posted);
        if (posted.receives && posted.known_gone.contains(action.peer) &&
            (posted.well() || posted.peer == Protocol::any_rank))
            fault("a receive takes what was offered by a rank that had left before");
        std::fill(posted.memory.begin(), posted.memory.end(), scribbled);
    }

    // A receive has taken a message.
    void take(const Posted& receive) {
        const auto found = contents_.find(receive.at_the_end);
        if (found == contents_.end()) {
            fault(fmt::format("rank {} has received what nobody has sent", receive.rank));
            return;
        }
        Posted& send = *found->second;
        if (std::exchange(send.matched, true)) fault("a message was received twice");
        if (!fit(receive, send) || receive.found_peer != send.rank)
            fault("a receive has taken a message that does not fit");
        if (send.withdrawn) fault("a message was received that was withdrawn before");
    }

    void carry(int from, int to, std::uint32_t serial, std::size_t bytes) {
        unanswered_[{from, to, serial}] = bytes;
        at(from).carried[to] += bytes;
    }
    // The sender has heard the answer to its offer, or does not wait for it any more.
    void answered(int from, int to, std::uint32_t serial) {
        const auto found = unanswered_.find({from, to, serial});
        if (found == unanswered_.end()) return;
        at(from).carried[to] -= found->second;
        unanswered_.erase(found);
    }

    // The sender has heard that the other rank has left.
    void forget_unanswered(int from, int to) {
        std::erase_if(unanswered_, [&](const auto& each) {
            const auto& [sender, target, serial] = each.first;
            return sender == from && target == to;
        });
        at(from).carried[to] = 0;
    }

    void deliver(int from, int to) {
        auto& queue = notes_[{from, to}];
        const Note note = queue.front();
        queue.pop_front();
        if (note.kind == Note::Kind::accept || note.kind == Note::Kind::refuse)
            answered(to, from, note.serial);
        if (note.kind == Note::Kind::withdraw)
            offers_.at({from, to, note.serial})->withdrawn = true;
        if (const Done heard = at(to).protocol.hear(from, note); !heard) fault(heard.error().text);
    }

    void undelivered(int from, int to, const Note& note) {
        answered(from, to, note.serial);
        at(from).protocol.undelivered(to, note.kind, note.serial);
        const auto offer = offers_.find({from, to, note.serial});
        if (note.kind == Note::Kind::offer || note.kind == Note::Kind::offer_with_data)
            at(from).undelivered.push_back(offer->second);
    }

    // The sender's side of a transfer may be done before the receiver's.
    void send_done(const Key& key) {
        Transfer& transfer = transfers_.at(key);
        Posted& send = *std::exchange(transfer.send, nullptr);
        transfer.data = send.memory;
        end_of_data(send, Protocol::Moved::whole);
    }

    void receive_done(const Key& key) {
        const Transfer transfer = std::move(transfers_.at(key));
        transfers_.erase(key);
        if (transfer.data) {
            if (transfer.data->size() != transfer.receive->memory.size())
                fault("data of another length than accepted");
            transfer.receive->memory = *transfer.data;
        }
        const auto other =
            transfer.withheld ? Protocol::Moved::withheld : Protocol::Moved::peer_left;
        end_of_data(*transfer.receive, transfer.data ? Protocol::Moved::whole : other);
    }

    void end_of_data(const Posted& posted, Protocol::Moved how) {
        Rank& rank = at(posted.rank);
        for (const auto& [id, each] : rank.posted) {
            if (each != &posted) continue;
            rank.protocol.moved(id, how);
            return;
        }
    }

    // A rank leaves in order, that is, when no data of its is moved.
    bool can_leave(int number) {
        const auto& posted = at(number).posted;
        return std::none_of(posted.begin(), posted.end(),
                            [](const auto& each) { return each.second->moving; });
    }

    void leave(int number) {
        Rank& rank = at(number);
        rank.left = true;
        somebody_left_ = true;
        for (const auto& [id, posted] : rank.posted) {
            posted->complete = true;
            posted->status = MPIB_ERROR_NOT_INITIALIZED;
            posted->at_the_end = posted->memory;
        }
        rank.posted.clear();
    }

    // The rank learns that its peer has left. What the peer has sent is here.
    void notice(int number, int peer) {
        Rank& rank = at(number);
        rank.gone.insert(peer);
        const auto lost = std::exchange(notes_[{number, peer}], {});
        for (const Note& note : lost)
            undelivered(number, peer, note);
        std::erase_if(transfers_, [&](const auto& each) {
            return std::get<0>(each.first) == number && std::get<1>(each.first) == peer;
        });
    }

    bool can_look(int number) {
        Rank& rank = at(number);
        for (const int peer : rank.gone)
            if (!notes_[{peer, number}].empty()) return false;
        return !rank.gone.empty() && !rank.protocol.awaited_peers_that_left().empty();
    }

    bool give_one_up() {
        for (int number = 0; number < size(); ++number) {
            Rank& rank = at(number);
            if (rank.posted.empty()) continue;
            rank.protocol.give_up(any_posted(rank), Seconds(1));
            rank.action = rank.protocol.next();
            if (!rank.action) fault("a message cannot be given up");
            return true;
        }
        return false;
    }

    [[nodiscard]] static bool fit(const Posted& receive, const Posted& send) {
        return receive.rank == send.peer && receive.tag == send.tag &&
               receive.channel == send.channel &&
               (receive.peer == Protocol::any_rank || receive.peer == send.rank);
    }

    void check_that_nothing_is_stuck() {
        int refusals = 0;  // less those that were heard
        for (const auto& one : all_) {
            if (one->status == MPIB_ERROR_MISMATCH) refusals += one->receives ? 1 : -1;
            if (one->complete) continue;
            if (one->moving)
                fault(fmt::format("the data of message {} of rank {} is stuck", one->number,
                                  one->rank));
            for (const auto& other : all_) {
                if (!one->receives || other->receives || other->complete || !fit(*one, *other))
                    continue;
                fault(fmt::format("message {} of rank {} is stuck, though rank {} receives it",
                                  other->number, other->rank, one->rank));
            }
        }
        if (refusals != 0 && !gives_up_ && !somebody_left_)
            fault("a sender does not know that its message does not fit");
    }

    void check_ends() {
        // By receiver, sender and address: the latest message received.
        std::map<std::tuple<int, int, std::int64_t, std::string>, int> latest;
        for (const auto& posted : all_) {
            count(*posted);
            if (!posted->complete) fault("a message has no end");
            if (!posted->receives) {
                check_end_of_send(*posted);
                continue;
            }
            const bool touched = std::any_of(posted->at_the_end.begin(), posted->at_the_end.end(),
                                             [](std::byte each) { return each != untouched; });
            if (!posted->well()) {
                if (touched)
                    fault(fmt::format("a receive that failed ({}) has taken data",
                                      static_cast<int>(posted->status)));
                continue;
            }
            const Posted& send = *contents_.at(posted->at_the_end);
            const auto [entry, is_first] =
                latest.try_emplace({posted->rank, send.rank, send.tag, send.channel}, send.number);
            if (!is_first && entry->second > send.number)
                fault("messages were received out of order");
            entry->second = send.number;
        }
    }

    void check_end_of_send(const Posted& send) {
        if (send.well() && !send.matched) fault("a message was sent, but nobody has received it");
        const bool given_up = send.status == MPIB_ERROR_TIMEOUT;
        // A sender that gives short data up may do so when it was received already.
        const bool may_be = send.status == MPIB_OK || send.status == MPIB_ERROR_NOT_INITIALIZED ||
                            (given_up && send.with_data);
        if (send.matched && !may_be)
            fault(fmt::format("a message was received whose sender was told {}",
                              static_cast<int>(send.status)));
        if (given_up && send.with_data && !send.withdrawn && !at(send.peer).left)
            fault("short data was given up, but its receiver has not heard of that");
    }

    void count(const Posted& posted) {
        if (posted.well() && posted.receives) ++result_.received;
        if (posted.status == MPIB_ERROR_INVALID_ARGUMENT) ++result_.cancelled;
        if (posted.status == MPIB_ERROR_TIMEOUT) ++result_.given_up;
        if (posted.status == MPIB_ERROR_MISMATCH) ++result_.mismatched;
        if (posted.status == MPIB_ERROR_PEER_LOST) ++result_.left_behind;
    }

    std::mt19937_64 random_;
    Result result_;
    bool bursts_ = false;  // one rank sends more short data than its peer has to keep
    bool cancels_ = false;
    bool gives_up_ = false;
    bool may_leave_ = false;
    bool mismatches_ = false;
    bool tells_of_lost_data_ = false;  // before the answer to the offer is undelivered
    bool somebody_left_ = false;
    bool draining_ = false;
    std::optional<std::size_t> length_of_ones_;
    std::vector<std::unique_ptr<Rank>> ranks_;
    std::vector<std::unique_ptr<Posted>> all_;
    std::map<Bytes, Posted*> contents_;                      // of the sends
    std::map<std::pair<int, int>, std::deque<Note>> notes_;  // by sender and receiver
    std::map<Key, Posted*> offers_;
    std::map<Key, Transfer> transfers_;
    std::map<Key, std::size_t> unanswered_;  // bytes of the offers with data
    std::vector<Event> events_;              // that can happen next
};

}  // namespace

Result simulate(std::uint64_t seed) {
    return Simulation(seed).run();
}

}  // namespace message_schedules
