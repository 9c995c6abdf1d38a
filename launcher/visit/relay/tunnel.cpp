// SPDX-License-Identifier: GPL-2.0-or-later
#include "visit/relay/tunnel.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace batchai::visit {

namespace {

// No socket is read while so much waits for the other side.
constexpr std::size_t most_outgoing = 1UL << 20U;
// Nothing is read from the other side while it takes nothing. It never gets so far unless it breaks
// the protocol.
constexpr std::size_t far_too_much = 8UL << 20U;
constexpr std::size_t most_channels = 256;
constexpr int most_accepted = 16;  // of a port, at a time
constexpr std::uint32_t credit_step = window / 4;
constexpr std::size_t tunnel_chunk = 256UL << 10U;
constexpr std::chrono::milliseconds look_again{500};

bool would_block() {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

void make_nonblocking(int descriptor) {
    const int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) fcntl(descriptor, F_SETFL, flags | O_NONBLOCK);
}

// Small messages, such as keystrokes of a notebook, are not held back.
void make_prompt(int socket) {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Tunnel::Tunnel(int input, int output, FrameReader::Begin begin)
    : input_(input), output_(output), reader_(begin), chunk_(tunnel_chunk, '\0') {
    make_nonblocking(input);
    make_nonblocking(output);
}

void Tunnel::reset(std::uint32_t number) {
    append(outgoing_, FrameType::reset, number);
    channels_.erase(number);
}

void Tunnel::forget_if_ended(std::uint32_t number) {
    const auto found = channels_.find(number);
    if (found != channels_.end() && found->second.socket_ended && found->second.shut)
        channels_.erase(found);
}

void Tunnel::write_to_socket(std::uint32_t number) {
    Channel& channel = channels_.at(number);
    if (channel.stage == Stage::waiting || channel.stage == Stage::connecting) return;
    while (channel.arrived_at < channel.arrived.size()) {
        const ssize_t count =
            send(channel.socket.get(), channel.arrived.data() + channel.arrived_at,
                 channel.arrived.size() - channel.arrived_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count < 0 && would_block()) break;
        if (count < 0) return reset(number);
        channel.arrived_at += static_cast<std::size_t>(count);
        channel.owed += static_cast<std::uint32_t>(count);
    }
    if (channel.arrived_at == channel.arrived.size()) {
        channel.arrived.clear();
        channel.arrived_at = 0;
    }
    if (channel.owed >= credit_step && !channel.other_side_ended) {
        append_credit(outgoing_, number, channel.owed);
        channel.owed = 0;
    }
    if (!channel.arrived.empty() || !channel.other_side_ended || channel.shut) return;
    shutdown(channel.socket.get(), SHUT_WR);
    channel.shut = true;
    forget_if_ended(number);
}

void Tunnel::read_from_socket(std::uint32_t number) {
    Channel& channel = channels_.at(number);
    while (channel.may_send > 0 && outgoing_.size() - outgoing_at_ < most_outgoing) {
        std::array<char, longest_payload> bytes;  // NOLINT: recv fills it
        const std::size_t most = std::min<std::size_t>(channel.may_send, bytes.size());
        const ssize_t count = recv(channel.socket.get(), bytes.data(), most, MSG_DONTWAIT);
        if (count < 0 && would_block()) return;
        if (count < 0 || (count == 0 && channel.stage != Stage::open && is_given_up(channel)))
            return reset(number);
        if (count == 0) {
            append(outgoing_, FrameType::end, number);
            channel.socket_ended = true;
            return forget_if_ended(number);
        }
        append(outgoing_, FrameType::data, number, {bytes.data(), static_cast<std::size_t>(count)});
        channel.may_send -= static_cast<std::uint32_t>(count);
        if (static_cast<std::size_t>(count) < most) return;
    }
}

void Tunnel::take_data(std::uint32_t number, Channel& channel, const std::string& bytes) {
    const std::size_t kept = channel.arrived.size() - channel.arrived_at + channel.owed;
    if (channel.other_side_ended || kept + bytes.size() > window) return reset(number);
    if (channel.arrived_at > window / 2) {
        channel.arrived.erase(0, channel.arrived_at);
        channel.arrived_at = 0;
    }
    channel.arrived += bytes;
    write_to_socket(number);
}

void Tunnel::take(Frame frame) {
    const bool of_a_channel = frame.type == FrameType::data || frame.type == FrameType::credit ||
                              frame.type == FrameType::end || frame.type == FrameType::reset;
    if (!of_a_channel) return handle(frame);
    const auto found = channels_.find(frame.channel);
    // The other side did not know yet that the channel is gone.
    if (found == channels_.end()) return;
    Channel& channel = found->second;
    if (frame.type == FrameType::data) return take_data(frame.channel, channel, frame.payload);
    if (frame.type == FrameType::reset) {
        // The peer of the socket gets a reset as well, and does not take what it has for complete.
        const linger at_once{1, 0};
        setsockopt(channel.socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        channels_.erase(found);
    } else if (frame.type == FrameType::credit) {
        const std::uint32_t bytes = credit_of(frame);
        if (bytes > window - channel.may_send) return reset(frame.channel);
        channel.may_send += bytes;
    } else {
        channel.other_side_ended = true;
        write_to_socket(frame.channel);
    }
}

bool Tunnel::read_frames() {
    const ssize_t count = read(input_, chunk_.data(), chunk_.size());
    if (count < 0) return would_block();
    if (count == 0) return false;
    reader_.feed(std::string_view(chunk_).substr(0, static_cast<std::size_t>(count)));
    while (auto frame = reader_.next())
        take(std::move(*frame));
    return true;
}

bool Tunnel::write_frames() {
    while (outgoing_at_ < outgoing_.size()) {
        const ssize_t count =
            write(output_, outgoing_.data() + outgoing_at_, outgoing_.size() - outgoing_at_);
        if (count < 0) return would_block();
        outgoing_at_ += static_cast<std::size_t>(count);
        if (outgoing_at_ < most_outgoing && outgoing_at_ < outgoing_.size()) continue;
        outgoing_.erase(0, outgoing_at_);
        outgoing_at_ = 0;
    }
    return true;
}

void Tunnel::add_sockets(std::vector<pollfd>& waiting, std::vector<std::uint32_t>& numbers) const {
    const bool room = outgoing_.size() - outgoing_at_ < most_outgoing;
    for (const auto& [number, channel] : channels_) {
        short events = 0;
        const bool usable = channel.stage == Stage::open || channel.stage == Stage::opening;
        if (usable && room && !channel.socket_ended && channel.may_send > 0) events |= POLLIN;
        if (channel.stage == Stage::connecting || (usable && !channel.arrived.empty()))
            events |= POLLOUT;
        if (events == 0) continue;
        waiting.push_back({channel.socket.get(), events, 0});
        numbers.push_back(number);
    }
}

void Tunnel::move_sockets(const std::vector<pollfd>& waiting, std::size_t first,
                          const std::vector<std::uint32_t>& numbers) {
    if (numbers.empty()) return;
    ++first_served_;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        const std::size_t at = (i + first_served_) % numbers.size();
        const std::uint32_t number = numbers[at];
        const pollfd& found = waiting[first + at];
        const auto exists = [&] { return channels_.contains(number); };
        if (found.revents == 0 || !exists()) continue;
        Channel& channel = channels_.at(number);
        if (channel.stage == Stage::connecting) {
            connected(number, channel);
            continue;
        }
        if ((found.events & POLLOUT) != 0) write_to_socket(number);
        if ((found.events & POLLIN) != 0 && exists()) read_from_socket(number);
    }
}

Tunnel::Turn Tunnel::turn(std::chrono::milliseconds longest, const std::vector<int>& others) {
    const std::size_t left = outgoing_.size() - outgoing_at_;
    std::vector<pollfd> waiting{{left < far_too_much ? input_ : -1, POLLIN, 0},
                                {left > 0 ? output_ : -1, POLLOUT, 0}};
    for (const int other : others)
        waiting.push_back({other, POLLIN, 0});
    const std::size_t first = waiting.size();
    std::vector<std::uint32_t> numbers;
    add_sockets(waiting, numbers);
    const int ready = ::poll(waiting.data(), waiting.size(), static_cast<int>(longest.count()));
    if (ready < 0 && errno != EINTR) return Turn::failed;
    if (ready > 0 && waiting[0].revents != 0 && !read_frames()) return Turn::other_side_ended;
    if (!reader_.fault().empty()) return Turn::failed;
    if (ready > 0) move_sockets(waiting, first, numbers);
    return write_frames() ? Turn::goes_on : Turn::other_side_ended;
}

namespace {

// Returns the port; errno says what is wrong if there is none.
std::optional<std::uint16_t> listen_at(const Endpoint& endpoint,
                                       std::vector<base::FileDescriptor>& listeners) {
    sockaddr_storage address{};
    socklen_t length = socket_address(endpoint, address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    base::FileDescriptor listener(
        socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    // A port of connections that have just ended can be used again at once.
    if (!listener.valid() ||
        setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (address.ss_family == AF_INET6 &&
         setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) != 0) ||
        bind(listener.get(), generic, length) != 0 || listen(listener.get(), SOMAXCONN) != 0 ||
        getsockname(listener.get(), generic, &length) != 0)
        return std::nullopt;
    listeners.push_back(std::move(listener));
    return endpoint_of(address).value_or(Endpoint{}).port;
}

}  // namespace

base::Result<Forward> listen_here(std::uint16_t here, std::uint16_t there) {
    // A free port of 127.0.0.1 may be taken on ::1.
    constexpr int most_tries = 64;
    int code = 0;
    for (int tries = 0; tries < (here == 0 ? most_tries : 1); ++tries) {
        Forward forward{.listeners = {}, .here = here, .there = there};
        const auto port = listen_at(ipv4(INADDR_LOOPBACK, here), forward.listeners);
        code = errno;
        if (!port) break;
        forward.here = *port;
        if (listen_at(ipv6_loopback(*port), forward.listeners)) return forward;
        code = errno;
        // Without IPv6 nobody can listen there.
        if (code == EAFNOSUPPORT || code == EADDRNOTAVAIL) return forward;
    }
    return base::fail(
        fmt::format("cannot listen on port {} of this host: {}", here, std::strerror(code)));
}

CommandSide::CommandSide(std::vector<Forward> forwards, int input, int output, Events events)
    : Tunnel(input, output, FrameReader::Begin::after_preamble),
      forwards_(std::move(forwards)),
      events_(std::move(events)) {
    for (const Forward& forward : forwards_) {
        states_[forward.there] = PortState::unknown;
        append_port(outgoing_, FrameType::watch, 0, forward.there);
    }
}

Tunnel::Turn CommandSide::turn(std::chrono::milliseconds longest, std::vector<int> others) {
    const auto pause = std::chrono::duration_cast<std::chrono::milliseconds>(
        accepts_from_ - std::chrono::steady_clock::now());
    const bool accepts = pause <= std::chrono::milliseconds::zero();
    if (!accepts) longest = std::min(longest, pause);
    if (accepts && channels_.size() < most_channels) {
        for (const Forward& forward : forwards_) {
            for (const base::FileDescriptor& listener : forward.listeners)
                others.push_back(listener.get());
        }
    }
    const Turn result = Tunnel::turn(longest, others);
    if (!accepts) return result;
    for (const Forward& forward : forwards_) {
        for (const base::FileDescriptor& listener : forward.listeners) {
            if (!accept_all(listener, forward.there)) return result;
        }
    }
    return result;
}

bool CommandSide::accept_all(const base::FileDescriptor& listener, std::uint16_t there) {
    // Somebody who connects again and again must not keep the other connections waiting.
    for (int i = 0; i < most_accepted && channels_.size() < most_channels; ++i) {
        pollfd waiting{.fd = listener.get(), .events = POLLIN, .revents = 0};
        if (poll(&waiting, 1, 0) != 1) return true;
        // Finding out whose connection it is takes another descriptor.
        base::FileDescriptor spare(fcntl(listener.get(), F_DUPFD_CLOEXEC, 0));
        if (!spare.valid()) return !must_wait(errno);
        base::FileDescriptor connection(
            accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (!connection.valid()) return !must_wait(errno);
        spare = {};
        const auto user = user_of_peer(connection.get());
        if (user != geteuid()) {
            events_.refused(user);
            continue;
        }
        make_prompt(connection.get());
        while (channels_.contains(next_channel_) || next_channel_ == 0)
            ++next_channel_;
        append_port(outgoing_, FrameType::open, next_channel_, there);
        Channel& channel = channels_[next_channel_++];
        channel.socket = std::move(connection);
        channel.stage = Stage::opening;
        channel.port = there;
    }
    return true;
}

// A connection that cannot be accepted stays in the queue, where it would end each wait at once.
bool CommandSide::must_wait(int code) {
    if (code != EMFILE && code != ENFILE && code != ENOBUFS && code != ENOMEM) return false;
    constexpr std::chrono::seconds pause{1};
    accepts_from_ = std::chrono::steady_clock::now() + pause;
    events_.waits(code);
    return true;
}

void CommandSide::handle(const Frame& frame) {
    if (frame.type == FrameType::opened) {
        const auto found = channels_.find(frame.channel);
        if (found != channels_.end()) found->second.stage = Stage::open;
        return;
    }
    if (frame.type != FrameType::state) return;
    const auto known = states_.find(port_of(frame));
    if (known == states_.end() || known->second == state_of(frame)) return;
    known->second = state_of(frame);
    events_.port_state(known->first, known->second);
}

void CommandSide::connected(std::uint32_t /*number*/, Channel& /*channel*/) {}

bool CommandSide::is_given_up(const Channel& channel) const {
    return states_.at(channel.port) == PortState::silent;
}

namespace {

class NodeSide final : public Tunnel {
  public:
    NodeSide(int input, int output) : Tunnel(input, output, FrameReader::Begin::at_once) {
        outgoing_ += preamble;
    }

    // Looks again at ports on which nothing listens.
    void look() {
        const bool silent = std::any_of(states_.begin(), states_.end(), [](const auto& entry) {
            return entry.second != PortState::listens;
        });
        const auto now = std::chrono::steady_clock::now();
        if (!silent || now - looked_ < look_again) return;
        looked_ = now;
        const auto rows = socket_table();
        if (!rows) return;
        for (const auto& [port, state] : std::map(states_))
            note(port, listening_on(port, *rows, geteuid()).state);
        std::vector<std::uint32_t> waiting;
        for (const auto& [number, channel] : channels_) {
            if (channel.stage == Stage::waiting) waiting.push_back(number);
        }
        for (const std::uint32_t number : waiting)
            begin(number, *rows);
    }

  private:
    void note(std::uint16_t port, PortState state) {
        PortState& known = states_.try_emplace(port, PortState::unknown).first->second;
        if (known == state) return;
        known = state;
        append_state(outgoing_, port, state);
    }

    void handle(const Frame& frame) override {
        if (frame.type != FrameType::watch && frame.type != FrameType::open) return;
        const auto rows = socket_table();
        const std::uint16_t port = port_of(frame);
        if (!rows) {
            states_[port] = PortState::unknown;  // look() tries again
            append_state(outgoing_, port, PortState::unknown);
            if (frame.type == FrameType::open) append(outgoing_, FrameType::reset, frame.channel);
            return;
        }
        if (frame.type == FrameType::watch)
            return note(port, listening_on(port, *rows, geteuid()).state);
        const bool full = channels_.size() >= most_channels || channels_.contains(frame.channel);
        if (full) return append(outgoing_, FrameType::reset, frame.channel);
        Channel& channel = channels_[frame.channel];
        channel.port = port;
        channel.stage = Stage::waiting;
        begin(frame.channel, *rows);
    }

    // Connects the channel if something listens.
    void begin(std::uint32_t number, const std::vector<SocketRow>& rows) {
        Channel& channel = channels_.at(number);
        channel.listening = listening_on(channel.port, rows, geteuid());
        note(channel.port, channel.listening.state);
        if (channel.listening.state == PortState::foreign) return reset(number);
        if (channel.listening.state != PortState::listens) return;
        sockaddr_storage address{};
        const socklen_t length = socket_address(channel.listening.place, address);
        channel.socket.reset(
            socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!channel.socket.valid()) return reset(number);
        make_prompt(channel.socket.get());
        channel.stage = Stage::connecting;
        if (connect(channel.socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0)
            return connected(number, channel);
        if (errno != EINPROGRESS) wait_again(channel);
    }

    void wait_again(Channel& channel) {
        channel.socket.reset(-1);
        channel.stage = Stage::waiting;
        note(channel.port, PortState::silent);
    }

    // Between the look at the table and the connection somebody else may have begun to listen.
    [[nodiscard]] bool is_still_ours(const Channel& channel) const {
        const auto rows = socket_table();
        if (!rows) return false;
        if (listening_on(channel.port, *rows, geteuid()) == channel.listening) return true;
        sockaddr_storage address{};
        socklen_t length = sizeof address;
        if (getsockname(channel.socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
            return false;
        const auto own = endpoint_of(address);
        return own && user_of_peer(*rows, *own, channel.listening.place) == geteuid();
    }

    void connected(std::uint32_t number, Channel& channel) override {
        int error = 0;
        socklen_t length = sizeof error;
        if (getsockopt(channel.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0 ||
            error != 0)
            return wait_again(channel);
        if (!is_still_ours(channel)) return reset(number);
        channel.stage = Stage::open;
        append(outgoing_, FrameType::opened, number);
        write_to_socket(number);
    }

    [[nodiscard]] bool is_given_up(const Channel& /*channel*/) const override { return true; }

    std::map<std::uint16_t, PortState> states_;
    std::chrono::steady_clock::time_point looked_{};
};

}  // namespace

base::Result<void> serve_node(int input, int output) {
    NodeSide side(input, output);
    while (true) {
        side.look();
        switch (side.turn(look_again)) {
            case Tunnel::Turn::goes_on:
                break;
            case Tunnel::Turn::other_side_ended:
                return {};
            case Tunnel::Turn::failed:
                return base::fail(side.fault().empty() ? std::strerror(errno) : side.fault(),
                                  "relay");
        }
    }
}

}  // namespace batchai::visit
