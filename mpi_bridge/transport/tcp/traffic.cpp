// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/traffic.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace mpi_bridge {
namespace {

using Presence = TcpPeer::Presence;

// Every call of move() tries the sockets of the active peers. The system is asked about all other
// sockets only in some of the calls, and before blocking.
constexpr unsigned looks_per_sweep = 16;
// With more peers than this, asking the system about all of them is cheaper than trying each.
constexpr std::size_t most_tried = 8;
constexpr std::chrono::microseconds pause_in_close{50};
// The system is asked so often whether the hosts of peers are silent; a microsecond for each.
constexpr std::chrono::milliseconds between_silence_looks{500};

}  // namespace

TcpTraffic::TcpTraffic(TcpTransport::Options options)
    : options_(std::move(options)),
      links_(options_.size),
      meeting_(options_.rank, links_, options_.host_timeout, meeting_events()) {}

TcpMeeting::Events TcpTraffic::meeting_events() {
    TcpMeeting::Events events;
    events.met = [this](int link, FileDescriptor socket) { met(link, std::move(socket)); };
    events.missed = [this](int link, std::string why) { missed(link, std::move(why)); };
    events.watch = [this](int socket) { events_.watch(socket, TcpEvents::meeting, true); };
    events.address_of = options_.address_of;
    return events;
}

Done TcpTraffic::start(int interrupt_descriptor) {
    peers_.resize(static_cast<std::size_t>(links_.count()));
    TRY(events_.open());
    events_.watch_level(interrupt_descriptor, TcpEvents::interrupt);
    return meeting_.listen(options_.addresses);
}

TcpTraffic::Peer& TcpTraffic::make_peer(int link) {
    auto& place = peers_[static_cast<std::size_t>(link)];
    place = std::make_unique<Peer>(link, kept_memory_[links_.kind(link)]);
    return *place;
}

Outcome<TcpPeer*> TcpTraffic::talk_to(int link) {
    if (closed_) return fail(MPIB_ERROR_INTERNAL, "the transport is closed");
    auto& place = peers_[static_cast<std::size_t>(link)];
    if (place == nullptr) {
        make_peer(link);
        Done called = meeting_.call(link);
        if (!called) place.reset();
        TRY(std::move(called));
    }
    return &place->stream;
}

void TcpTraffic::met(int link, FileDescriptor socket) {
    auto& place = peers_[static_cast<std::size_t>(link)];
    Peer& peer = place == nullptr ? make_peer(link) : *place;
    if (const int bytes = options_.send_buffer_bytes; bytes != 0) {
        (void)setsockopt(socket.number(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    events_.watch(socket.number(), link, false);
    peer.stream.connect(std::move(socket));
    if (says_goodbye_) peer.stream.say_goodbye();
    // A peer that calls has something to send.
    peer.stream.set_readable();
    activate(peer);
}

void TcpTraffic::missed(int link, std::string why) {
    missed_.push_back({link, std::move(why)});
}

// A rank that leaves says so over the links that it has, and cannot be called any more. So what has
// come over the other link is read first.
bool TcpTraffic::end_missed() {
    bool ended = false;
    for (auto missed = missed_.begin(); missed != missed_.end();) {
        const int link = missed->link;
        TcpPeer& stream = peers_[static_cast<std::size_t>(link)]->stream;
        // The other side may have called meanwhile.
        if (stream.connected() || stream.presence() != Presence::there) {
            missed = missed_.erase(missed);
            continue;
        }
        const auto other_kind =
            links_.kind(link) == TcpLinks::bulk ? TcpLinks::control : TcpLinks::bulk;
        const auto& other =
            peers_[static_cast<std::size_t>(links_.to(links_.rank(link), other_kind))];
        const bool may_tell = other != nullptr && other->stream.readable() && wants_to_read(*other);
        // A receive may have made room for what was left in the socket.
        if (may_tell) activate(*other);
        if (--missed->sweeps_left > 0 || may_tell) {
            ++missed;
            continue;
        }
        if (other != nullptr && other->stream.presence() == Presence::left) {
            stream.leave();
        } else {
            stream.lose(std::move(missed->why));
            lost_.push_back(link);
        }
        missed = missed_.erase(missed);
        ended = true;
    }
    return ended;
}

bool TcpTraffic::is_gone(int rank) const {
    bool known = false;
    for (const auto kind : {TcpLinks::bulk, TcpLinks::control}) {
        const auto& peer = peers_[static_cast<std::size_t>(links_.to(rank, kind))];
        if (peer == nullptr) continue;
        known = true;
        if (peer->stream.presence() == Presence::there || peer->stream.readable()) return false;
    }
    return known;
}

bool TcpTraffic::wants_to_read(const Peer& peer) const {
    const auto& stream = peer.stream;
    if (stream.inbox().expects()) return true;
    // Data that is not read stays on the sender's side once the socket's buffers are full. It must
    // not hold up data behind it that a thread here waits for. Nor may it hide the end of a
    // connection; before the end there is no more data than these buffers hold.
    return stream.readable() &&
           (stream.ending() || stream.inbox().kept_bytes() < options_.most_kept_bytes ||
            wanting_everything_[static_cast<std::size_t>(links_.kind(peer.link))] != 0);
}

void TcpTraffic::activate(Peer& peer) {
    if (peer.active) return;
    peer.active = true;
    active_.push_back(peer.link);
}

void TcpTraffic::sweep() {
    sweep_is_due_ = false;
    bool meeting = false;
    events_.take([&](int who, bool ending) {
        if (who == TcpEvents::meeting) meeting = true;
        if (who < 0) return;
        Peer& peer = *peers_[static_cast<std::size_t>(who)];
        ending ? peer.stream.set_ending() : peer.stream.set_readable();
        activate(peer);
    });
    if (meeting || meeting_.due()) meeting_.step();
}

// Also of peers with which nothing is under way here: what was sent to them may be what they wait
// for, and the kernel asks nothing over such a connection. Returns true if a peer is lost.
bool TcpTraffic::end_silent() {
    const auto now = Clock::now();
    if (now < next_silence_look_) return false;
    next_silence_look_ = now + between_silence_looks;
    bool ended = false;
    for (const auto& each : peers_) {
        if (each == nullptr || !each->stream.connected()) continue;
        Peer& peer = *each;
        const auto silence = peer.silence.look(TcpAcknowledgement::of(peer.stream.socket()), now);
        if (silence < options_.host_timeout) continue;
        peer.stream.lose("its host has not answered for " +
                         std::to_string(static_cast<int>(silence.count())) + " s");
        lost_.push_back(peer.link);
        ended = true;
    }
    return ended;
}

bool TcpTraffic::move() {
    if (closed_) return false;
    const bool many = active_.size() > most_tried;
    bool moved = false;
    if (sweep_is_due_ || many || !missed_.empty() || ++looks_ % looks_per_sweep == 0) {
        sweep();
        moved = end_silent();
    }
    for (std::size_t index = 0; index < active_.size();) {
        Peer& peer = *peers_[static_cast<std::size_t>(active_[index])];
        moved = move(peer, !many) || moved;
        if (peer.stream.connected() && (peer.stream.sends() || wants_to_read(peer))) {
            ++index;
            continue;
        }
        peer.active = false;
        active_[index] = active_.back();
        active_.pop_back();
    }
    if (!missed_.empty()) moved = end_missed() || moved;
    return moved;
}

bool TcpTraffic::move(Peer& peer, bool try_socket) {
    TcpPeer& stream = peer.stream;
    const bool was_there = stream.connected();
    bool moved = false;
    if (stream.sends()) moved = stream.write();
    if (stream.sends() && stream.connected() && !peer.awaits_room) {
        peer.awaits_room = true;
        events_.watch(stream.socket(), peer.link, true);
    }
    if (wants_to_read(peer) && (try_socket || stream.readable())) moved = stream.read() || moved;
    if (was_there && !stream.connected() && stream.presence() == Presence::lost) {
        lost_.push_back(peer.link);
    }
    return moved;
}

// After this, whatever happens is an event, or was one that has not been taken yet.
bool TcpTraffic::arm() {
    for (const int link : active_) {
        Peer& peer = *peers_[static_cast<std::size_t>(link)];
        if (!peer.awaits_room || peer.stream.sends()) continue;
        peer.awaits_room = false;
        events_.watch(peer.stream.socket(), link, false);
    }
    sweep_is_due_ = true;
    if (meeting_.has_work() || !missed_.empty()) return false;
    return std::none_of(active_.begin(), active_.end(), [this](int link) {
        const Peer& peer = *peers_[static_cast<std::size_t>(link)];
        return peer.stream.readable() && wants_to_read(peer);
    });
}

std::optional<int> TcpTraffic::keeps_message_of(std::uint32_t call, TcpLinks::Kind kind) const {
    // A thread that waits asks after each look, and a job may have thousands of peers.
    if (kept_memory_[kind].taken() == 0) return std::nullopt;
    for (const auto& peer : peers_of(kind)) {
        if (peer != nullptr && peer->stream.inbox().keeps(call)) return links_.rank(peer->link);
    }
    return std::nullopt;
}

void TcpTraffic::want_everything(TcpLinks::Kind kind) {
    ++wanting_everything_[static_cast<std::size_t>(kind)];
    for (const auto& peer : peers_of(kind)) {
        if (peer != nullptr && peer->stream.readable()) activate(*peer);
    }
}

void TcpTraffic::abandon() {
    closed_ = true;
    meeting_.abandon();
    for (const auto& peer : peers_) {
        if (peer != nullptr) peer->stream.abandon();
    }
    active_.clear();
    missed_.clear();
}

template <typename Condition>
void TcpTraffic::look_until(const std::function<bool()>& look, const Condition& condition,
                            Deadline deadline) {
    while (!std::all_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
        return peer == nullptr || peer->stream.presence() != Presence::there ||
               condition(peer->stream);
    })) {
        sweep_is_due_ = true;
        if (look()) continue;
        if (deadline.passed()) return;
        std::this_thread::sleep_for(pause_in_close);
    }
}

void TcpTraffic::close(const std::function<bool()>& look, Deadline deadline) {
    const auto all_sent = [](const TcpPeer& peer) { return !peer.sends(); };
    look_until(look, all_sent, deadline);
    says_goodbye_ = true;
    for (const auto& peer : peers_) {
        if (peer == nullptr || !peer->stream.connected()) continue;
        peer->stream.say_goodbye();
        activate(*peer);
    }
    look_until(
        look, [&](const TcpPeer& peer) { return !peer.connected() || all_sent(peer); }, deadline);
    // Closing a socket that holds unread data drops what it still has to send.
    const auto delivered = [](const TcpPeer& peer) {
        int unread = 0;
        int unacknowledged = 0;
        if (!peer.connected()) return true;
        (void)ioctl(peer.socket(), SIOCINQ, &unread);
        (void)ioctl(peer.socket(), SIOCOUTQ, &unacknowledged);
        return unread == 0 || unacknowledged == 0;
    };
    look_until(look, delivered, deadline);
    closed_ = true;
    meeting_.abandon();
    active_.clear();
    missed_.clear();
    peers_.clear();
}

}  // namespace mpi_bridge
