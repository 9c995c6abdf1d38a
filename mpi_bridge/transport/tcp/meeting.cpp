// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/meeting.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>

#include "core/descriptor_limit.hpp"

namespace mpi_bridge {
namespace {

using std::chrono::milliseconds;

// The limit per call, so that a flood of strangers cannot keep this rank from its work.
constexpr int most_accepted = 64;
constexpr milliseconds pause_without_room{50};
// How long a connection that breaks before the two ranks have met is retried.
constexpr std::chrono::seconds longest_trying{20};
constexpr milliseconds shortest_pause{10};
constexpr milliseconds longest_pause{500};

void set_option(int socket, int level, int option, int value) {
    (void)setsockopt(socket, level, option, &value, sizeof value);
}

// While nothing is under way, the kernel notices that a host is silent. While something is,
// TcpTraffic does (host_silence.hpp): the kernel's own limit would also end a connection to a
// process that is stopped, or computes, and does not read.
void set_options(int socket, Seconds host_timeout) {
    constexpr int longest = 32767;  // that the kernel takes
    const int seconds = static_cast<int>(std::min(host_timeout, Seconds(longest)).count());
    const int idle = std::max(seconds / 2, 1);
    const int interval = std::max(seconds / 10, 1);
    set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, idle);
    set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, interval);
    set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, std::max((seconds - idle) / interval, 2));
}

// How long a call may be unanswered. The messages of a handshake always find room.
void limit_call(int socket, Seconds host_timeout) {
    constexpr Seconds longest{24 * 3600};
    const auto limit = std::chrono::duration_cast<milliseconds>(std::min(host_timeout, longest));
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limit.count()));
}

void end_limit_of_call(int socket) {
    set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 0);
}

std::string error_text(int error) {
    return std::system_category().message(error);
}

// Returns the bytes moved, 0 when nothing can move at present, or -1 with errno when the other side
// is gone.
ssize_t moved(ssize_t count) {
    if (count > 0) return count;
    if (count == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

template <typename Message>
std::vector<std::byte> bytes_of_message(const Message& message) {
    const auto bytes = std::as_bytes(std::span(&message, 1));
    return {bytes.begin(), bytes.end()};
}

bool lacks_room(int error) {
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

// Whether the listener itself can no longer be used. All other errors that accept(2) lists concern
// one connection, or pass.
bool is_final(int error) {
    return error == EBADF || error == EINVAL || error == ENOTSOCK;
}

}  // namespace

TcpMeeting::TcpMeeting(int rank, TcpLinks links, Seconds host_timeout, Events events)
    : rank_(rank),
      links_(links),
      host_timeout_(host_timeout),
      events_(std::move(events)),
      handshakes_(rank, links,
                  {[this](int socket) { events_.watch(socket); },
                   [this](FileDescriptor socket, const TcpHandshake& handshake) {
                       receive(std::move(socket), handshake);
                   }}) {}

Done TcpMeeting::listen(const std::vector<std::string>& addresses) {
    met_.resize(static_cast<std::size_t>(links_.count()));
    auto secret = TRY(make_tcp_secret());
    address_.secret = secret;
    handshakes_.set_secret(secret);
    Done last = fail(MPIB_ERROR_INTERNAL, "there is no address to listen at");
    for (const auto& text : addresses) {
        auto endpoint = TRY(TcpEndpoint::parse(text));
        auto listener = listen_at(endpoint);
        if (!listener) {
            last = tl::unexpected(std::move(listener).error());
            continue;
        }
        address_.endpoints.push_back(endpoint);
        events_.watch(listener->number());
        listeners_.push_back(std::move(*listener));
    }
    if (listeners_.empty()) return last;
    return {};
}

Done TcpMeeting::call(int link) {
    auto bytes = TRY(events_.address_of(links_.rank(link)));
    auto address = TRY(TcpAddress::parse(bytes));
    Call& call = calls_[link];
    call.address = std::move(address);
    reach(link, call, {});
    set_timer();
    return {};
}

// Connects to the next endpoint that accepts an attempt. If there is none left, the call stays
// without a socket and is missed with the reason `why`.
void TcpMeeting::reach(int link, Call& call, std::string why) {
    call.socket = FileDescriptor();
    auto handshake = TcpHandshake::call(call.address.secret, own_end(link), link);
    if (!handshake) {
        events_.missed(link, handshake.error().text);
        return;
    }
    call.handshake = *handshake;
    call.stage = Call::Stage::challenge;
    call.saying = bytes_of_message(handshake->hello());
    call.said = 0;
    call.heard = 0;
    call.connected = false;
    while (call.endpoint < call.address.endpoints.size()) {
        const TcpEndpoint& endpoint = call.address.endpoints[call.endpoint++];
        const int family = endpoint.storage.ss_family;
        FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (socket) {
            set_options(socket.number(), host_timeout_);
            limit_call(socket.number(), host_timeout_);
        }
        const bool connects =
            socket && (connect(socket.number(), endpoint.generic(), endpoint.length()) == 0 ||
                       errno == EINPROGRESS);
        if (connects && !may_be_a_rank(socket.number())) {
            why = "another user listens at " + endpoint.text();
            continue;
        }
        if (connects) {
            call.socket = std::move(socket);
            events_.watch(call.socket.number());
            return;
        }
        const int error = errno;
        why = "connecting to " + endpoint.text() + ": " + error_text(error) +
              about_descriptor_limit(error);
        // A queue is full, or all descriptors or ports are in use; that passes.
        if ((error == EAGAIN || lacks_room(error)) && pause(call)) return;
    }
    events_.missed(link, std::move(why));
}

// Schedules another attempt at the same endpoint. Returns false when attempts have gone on for long
// enough.
bool TcpMeeting::pause(Call& call) {
    const auto now = Clock::now();
    if (call.breaks++ == 0) call.first_break = now;
    if (now > call.first_break + longest_trying) return false;
    const auto longer = shortest_pause * (1U << std::min(call.breaks, 6U));
    call.next_attempt = now + std::min<Clock::duration>(longer, longest_pause);
    call.stage = Call::Stage::pause;
    call.socket = FileDescriptor();
    return true;
}

bool TcpMeeting::step() {
    bool any = accept_some();
    any = handshakes_.step() || any;
    for (auto call = calls_.begin(); call != calls_.end();) {
        const auto progress = advance(call->first, call->second);
        any = any || progress != Progress::waits;
        call = progress == Progress::ended ? calls_.erase(call) : std::next(call);
    }
    set_timer();
    return any;
}

TcpMeeting::Progress TcpMeeting::advance(int link, Call& call) {
    if (call.stage == Call::Stage::yields) return Progress::waits;
    if (call.stage == Call::Stage::pause) {
        if (Clock::now() < call.next_attempt) return Progress::waits;
        --call.endpoint;  // tries the same endpoint again
        reach(link, call, {});
        return call.under_way() ? Progress::moved : Progress::ended;
    }
    if (!call.socket) return Progress::ended;
    Progress progress = Progress::waits;
    for (;;) {
        const auto next = converse(link, call);
        if (next == Progress::waits) return progress;
        if (next == Progress::ended || !call.socket) return next;  // or paused, or yielded
        progress = next;
    }
}

// Sends or receives the part of the handshake that is due, once.
TcpMeeting::Progress TcpMeeting::converse(int link, Call& call) {
    const int socket = call.socket.number();
    if (call.said < call.saying.size()) {
        // The socket accepts nothing until it is connected.
        const auto count = moved(::send(socket, call.saying.data() + call.said,
                                        call.saying.size() - call.said, MSG_NOSIGNAL));
        if (count < 0) return broke(link, call, errno);
        if (count == 0) return Progress::waits;
        call.connected = true;
        call.said += static_cast<std::size_t>(count);
        return Progress::moved;
    }
    const auto count =
        moved(::recv(socket, call.hearing.data() + call.heard, call.expected() - call.heard, 0));
    if (count < 0) return broke(link, call, errno);
    if (count == 0) return Progress::waits;
    call.heard += static_cast<std::size_t>(count);
    if (call.heard < call.expected()) return Progress::moved;
    return call.stage == Call::Stage::challenge ? take_challenge(link, call)
                                                : take_verdict(link, call);
}

TcpMeeting::Progress TcpMeeting::broke(int link, Call& call, int error) {
    const std::string why = "connecting to " + call.where() + ": " + error_text(error);
    // A connection that was never established ends with another error.
    if (call.connected || error == ECONNRESET || error == EPIPE) {
        return pause(call) ? Progress::moved : miss(link, why);
    }
    reach(link, call, why);
    return call.under_way() ? Progress::moved : Progress::ended;
}

TcpMeeting::Progress TcpMeeting::take_challenge(int link, Call& call) {
    TcpHandshake::Challenge challenge;
    std::memcpy(&challenge, call.hearing.data(), sizeof challenge);
    if (!call.handshake->accepts(challenge)) {
        return miss(link, "whoever answers at " + call.where() + " is not this rank");
    }
    call.saying = bytes_of_message(call.handshake->response());
    call.said = 0;
    call.heard = 0;
    call.stage = Call::Stage::verdict;
    return Progress::moved;
}

TcpMeeting::Progress TcpMeeting::take_verdict(int link, Call& call) {
    TcpHandshake::Verdict verdict;
    std::memcpy(&verdict, call.hearing.data(), sizeof verdict);
    const auto word = call.handshake->word_of(verdict);
    if (word == TcpHandshake::Word::welcome) {
        met_[static_cast<std::size_t>(link)] = true;
        end_limit_of_call(call.socket.number());
        events_.met(link, std::move(call.socket));
        return Progress::ended;
    }
    if (word == TcpHandshake::Word::called_you && link < own_end(link)) {
        call.stage = Call::Stage::yields;
        call.socket = FileDescriptor();
        return Progress::moved;
    }
    if (word == TcpHandshake::Word::met_before) {
        return miss(link, "the connection broke while it was made");
    }
    return miss(link, "whoever answers at " + call.where() + " is not this rank");
}

TcpMeeting::Progress TcpMeeting::miss(int link, std::string why) {
    events_.missed(link, std::move(why));
    return Progress::ended;
}

bool TcpMeeting::accept_some() {
    more_to_accept_ = false;
    if (Clock::now() < accepts_again_) return false;
    bool any = false;
    for (auto& listener : listeners_)
        any = (listener && accept_some(listener)) || any;
    return any;
}

bool TcpMeeting::accept_some(const FileDescriptor& listener) {
    bool any = false;
    for (int count = 0; count < most_accepted; ++count) {
        FileDescriptor socket(
            accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (socket) {
            any = true;
            if (!may_be_a_rank(socket.number())) continue;
            set_options(socket.number(), host_timeout_);
            handshakes_.admit(std::move(socket));
            continue;
        }
        const int error = errno;
        if (error == EAGAIN || error == EWOULDBLOCK || is_final(error)) return any;
        if (lacks_room(error)) {
            handshakes_.drop_one_awaiting_hello();
            accepts_again_ = Clock::now() + pause_without_room;
            return any;
        }
    }
    // No event will report the connections that are waiting already.
    more_to_accept_ = true;
    return any;
}

// Called when the caller has proved who it is.
void TcpMeeting::receive(FileDescriptor socket, const TcpHandshake& handshake) {
    using Word = TcpHandshake::Word;
    const int from = handshake.caller();
    const bool met = met_[static_cast<std::size_t>(from)];
    const auto call = calls_.find(from);
    const bool mine_counts = call != calls_.end() && own_end(from) < from;
    const auto word = met ? Word::met_before : mine_counts ? Word::called_you : Word::welcome;
    const auto verdict = handshake.verdict(word);
    // A new socket has room for the verdict.
    if (::send(socket.number(), &verdict, sizeof verdict, MSG_NOSIGNAL) != sizeof verdict) return;
    if (word != Word::welcome) return;
    // If both ranks have called, the other's call counts.
    if (call != calls_.end()) calls_.erase(call);
    met_[static_cast<std::size_t>(from)] = true;
    events_.met(from, std::move(socket));
}

void TcpMeeting::set_timer() {
    next_timer_ = handshakes_.next_end();
    if (accepts_again_ > Clock::now()) next_timer_ = std::min(next_timer_, accepts_again_);
    for (const auto& [link, call] : calls_) {
        if (call.stage == Call::Stage::pause)
            next_timer_ = std::min(next_timer_, call.next_attempt);
    }
}

void TcpMeeting::abandon() {
    listeners_.clear();
    calls_.clear();
    handshakes_.clear();
    more_to_accept_ = false;
    next_timer_ = Clock::time_point::max();
}

}  // namespace mpi_bridge
