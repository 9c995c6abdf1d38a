// SPDX-License-Identifier: Apache-2.0
#include "simulation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "core/deadline.hpp"
#include "messages/note.hpp"
#include "messages/protocol.hpp"
#include "mpi_bridge.h"
#include "simulated_network.hpp"
#include "simulated_world.hpp"

namespace message_schedules {
namespace {

using namespace mpi_bridge;

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
            world_.ranks.push_back(std::make_unique<Rank>(
                [this, rank](int peer) { return world_.at(rank).gone.contains(peer); }));
            world_.at(rank).left_to_post = bursts ? between(0, 150) : between(0, 16);
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
            world_.fault(exception.what());
        }
        return world_.result;
    }

  private:
    void run_to_the_end() {
        while (world_.result.fault.empty()) {
            if (++world_.result.events > 100'000) {
                world_.fault("no end after 100,000 events");
                break;
            }
            if (one_event()) continue;
            // Nothing can happen any more but that the programs give up.
            if (!draining_) world_.check_that_nothing_is_stuck(gives_up_);
            draining_ = true;
            if (!give_one_up()) break;
        }
        if (world_.result.fault.empty()) world_.check_ends();
    }

    int between(int low, int high) {
        return std::uniform_int_distribution<int>(low, high)(random_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }

    // Does one of the things that can happen next. False: nothing can.
    bool one_event() {
        events_.clear();
        for (int rank = 0; rank < world_.size(); ++rank)
            add_events(rank);
        if (events_.empty()) return false;
        const Event event =
            events_[static_cast<std::size_t>(between(0, static_cast<int>(events_.size()) - 1))];
        play(event);
        if (Rank& rank = world_.at(event.rank); !rank.action) rank.action = rank.protocol.next();
        return true;
    }

    void add_events(int number) {
        using Kind = Event::Kind;
        Rank& rank = world_.at(number);
        if (rank.left) return;
        // A rank carries out what its protocol asks for before it takes the next event.
        if (rank.action) {
            events_.push_back({Kind::act, number});
            return;
        }
        for (const Posted* const posted : std::exchange(rank.undelivered, {}))
            if (!posted->complete)
                world_.fault("a message waits though its offer could not be delivered");
        if (rank.left_to_post > 0) events_.push_back({Kind::post, number});
        for (int peer = 0; peer < world_.size(); ++peer) {
            if (network_.has_notes(peer, number)) events_.push_back({Kind::deliver, number, peer});
            if (world_.at(peer).left && !rank.gone.contains(peer))
                events_.push_back({Kind::notice, number, peer});
        }
        for (const auto& [key, transfer] : network_.transfers()) {
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
        if (may_leave_ && !world_.somebody_left && can_leave(number) && chance(2))
            events_.push_back({Kind::leave, number});
        if (can_look(number)) events_.push_back({Kind::look, number});
    }

    void play(const Event& event) {
        Rank& rank = world_.at(event.rank);
        switch (event.kind) {
            case Event::Kind::act:
                network_.act(event.rank);
                break;
            case Event::Kind::post:
                post(event.rank);
                break;
            case Event::Kind::deliver:
                network_.deliver(event.peer, event.rank);
                break;
            case Event::Kind::send_done:
                network_.send_done({event.rank, event.peer, event.serial});
                break;
            case Event::Kind::receive_done:
                network_.receive_done({event.peer, event.rank, event.serial});
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
                network_.notice(event.rank, event.peer);
                break;
            case Event::Kind::look:
                for (const int peer : rank.protocol.awaited_peers_that_left()) {
                    rank.protocol.peer_left(peer);
                    network_.forget_unanswered(event.rank, peer);
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
        Rank& rank = world_.at(number);
        --rank.left_to_post;
        Posted& posted = *world_.all.emplace_back(std::make_unique<Posted>());
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
            const std::uint64_t key = world_.all.size();
            std::memcpy(posted.memory.data(), &key, sizeof key);
            world_.contents.emplace(posted.memory, &posted);
            id = rank.protocol.send(posted.peer, posted.channel, posted.tag, posted.memory);
        }
        rank.posted.emplace(id, &posted);
        rank.latest = &posted;
    }

    // Often what another rank waits for.
    void choose(Posted& posted) {
        const Posted& other = *world_.all[static_cast<std::size_t>(
            between(0, static_cast<int>(world_.all.size()) - 1))];
        const bool for_this = other.rank != posted.rank &&
                              (other.peer == posted.rank || other.peer == Protocol::any_rank);
        if (!bursts_ && for_this && !other.complete && !other.moving) {
            posted.receives = !other.receives;
            posted.peer = other.rank;
            posted.tag = other.tag;
            posted.channel = other.channel;
        } else {
            posted.receives = bursts_ ? posted.rank != 0 : chance(50);
            posted.peer = bursts_ ? (posted.rank == 0 ? 1 : 0) : between(0, world_.size() - 2);
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

    // A rank leaves in order, that is, when no data of its is moved.
    bool can_leave(int number) {
        const auto& posted = world_.at(number).posted;
        return std::none_of(posted.begin(), posted.end(),
                            [](const auto& each) { return each.second->moving; });
    }

    void leave(int number) {
        Rank& rank = world_.at(number);
        rank.left = true;
        world_.somebody_left = true;
        for (const auto& [id, posted] : rank.posted) {
            posted->complete = true;
            posted->status = MPIB_ERROR_NOT_INITIALIZED;
            posted->at_the_end = posted->memory;
        }
        rank.posted.clear();
    }

    bool can_look(int number) {
        Rank& rank = world_.at(number);
        for (const int peer : rank.gone)
            if (network_.has_notes(peer, number)) return false;
        return !rank.gone.empty() && !rank.protocol.awaited_peers_that_left().empty();
    }

    bool give_one_up() {
        for (int number = 0; number < world_.size(); ++number) {
            Rank& rank = world_.at(number);
            if (rank.posted.empty()) continue;
            rank.protocol.give_up(any_posted(rank), Seconds(1));
            rank.action = rank.protocol.next();
            if (!rank.action) world_.fault("a message cannot be given up");
            return true;
        }
        return false;
    }

    std::mt19937_64 random_;
    World world_;
    Network network_{world_};
    bool bursts_ = false;  // one rank sends more short data than its peer has to keep
    bool cancels_ = false;
    bool gives_up_ = false;
    bool may_leave_ = false;
    bool mismatches_ = false;
    bool tells_of_lost_data_ = false;  // before the answer to the offer is undelivered
    bool draining_ = false;
    std::optional<std::size_t> length_of_ones_;
    std::vector<Event> events_;  // that can happen next
};

}  // namespace

Result simulate(std::uint64_t seed) {
    return Simulation(seed).run();
}

}  // namespace message_schedules
