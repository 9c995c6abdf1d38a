// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_meeting.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <netinet/tcp.h>
#include <sys/socket.h>

namespace mpi_bridge {
namespace {

constexpr std::chrono::seconds longest_hello{20};
// Beyond the ranks of the job, so many strangers are heard at a time.
constexpr std::size_t most_strangers = 64;

// A host that falls silent is noticed in a minute and a half while nothing is under way. There is
// no limit for what is: a peer that computes and does not read is alive, and every wait has a
// deadline of its own.
void set_options(int socket) {
    const auto set = [socket](int level, int option, int value) {
        (void)setsockopt(socket, level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
    set(IPPROTO_TCP, TCP_KEEPCNT, 6);
}

std::string error_text(int error) {
    return std::system_category().message(error);
}

// Bytes moved; 0 when nothing can be at present; -1 with errno when the other side is gone.
ssize_t moved(ssize_t count) {
    if (count > 0) return count;
    if (count == 0) {
        errno = ECONNRESET;
        return -1;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : -1;
}

}  // namespace

Done TcpMeeting::listen(const std::vector<std::string>& addresses) {
    met_.resize(static_cast<std::size_t>(size_));
    auto secret = make_tcp_secret();
    if (!secret) return pass_on(std::move(secret));
    address_.secret = *secret;
    Done last = fail(MPIB_ERROR_INTERNAL, "there is no address to listen at");
    for (const auto& text : addresses) {
        auto endpoint = TcpEndpoint::parse(text);
        if (!endpoint) return pass_on(std::move(endpoint));
        auto listener = listen_at(*endpoint);
        if (!listener) {
            last = pass_on(std::move(listener));
            continue;
        }
        address_.endpoints.push_back(*endpoint);
        events_.watch(listener->number());
        listeners_.push_back(std::move(*listener));
    }
    if (listeners_.empty()) return last;
    return {};
}

Done TcpMeeting::call(int rank) {
    auto bytes = events_.address_of(rank);
    if (!bytes) return pass_on(std::move(bytes));
    auto address = TcpAddress::parse(*bytes);
    if (!address) return pass_on(std::move(address));
    Call& call = calls_[rank];
    call.address = std::move(*address);
    reach(rank, call, {});
    return {};
}

// Connects to the next endpoint that can be tried. Without any left the call stays without a
// socket, and `why` ends it.
void TcpMeeting::reach(int rank, Call& call, std::string why) {
    call.socket = FileDescriptor();
    while (call.endpoint < call.address.endpoints.size()) {
        const TcpEndpoint& endpoint = call.address.endpoints[call.endpoint++];
        const int family = endpoint.storage.ss_family;
        FileDescriptor socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        if (socket) set_options(socket.number());
        if (socket && (connect(socket.number(), endpoint.generic(), endpoint.length()) == 0 ||
                       errno == EINPROGRESS)) {
            call.socket = std::move(socket);
            events_.watch(call.socket.number());
            return;
        }
        why = "connecting to " + endpoint.text() + ": " + error_text(errno);
    }
    events_.missed(rank, std::move(why));
}

bool TcpMeeting::step() {
    bool any = false;
    for (const auto& listener : listeners_)
        any = accept_all(listener) || any;
    for (auto visitor = visitors_.begin(); visitor != visitors_.end();) {
        const auto progress = advance(*visitor);
        any = any || progress != Progress::waits;
        visitor = progress == Progress::ended ? visitors_.erase(visitor) : std::next(visitor);
    }
    for (auto call = calls_.begin(); call != calls_.end();) {
        const auto progress = advance(call->first, call->second);
        any = any || progress != Progress::waits;
        call = progress == Progress::ended ? calls_.erase(call) : std::next(call);
    }
    return any;
}

TcpMeeting::Progress TcpMeeting::advance(int rank, Call& call) {
    if (call.yields) return Progress::waits;
    if (!call.socket) return Progress::ended;
    const int socket = call.socket.number();
    bool any = false;
    ssize_t count = 0;
    if (call.said < sizeof(Hello)) {
        const Hello hello{magic, static_cast<std::uint32_t>(rank_),
                          static_cast<std::uint32_t>(rank), call.address.secret};
        const auto* bytes = reinterpret_cast<const std::byte*>(&hello);
        // Until it is connected, the socket takes nothing.
        count = moved(::send(socket, bytes + call.said, sizeof hello - call.said, MSG_NOSIGNAL));
        if (count > 0) call.said += static_cast<std::size_t>(count);
        any = count > 0;
    }
    if (count >= 0 && call.said == sizeof(Hello)) {
        count = moved(
            ::recv(socket, call.answer.data() + call.heard, call.answer.size() - call.heard, 0));
        if (count > 0) call.heard += static_cast<std::size_t>(count);
        any = any || count > 0;
    }
    if (count < 0) {
        const int error = errno;
        const auto& endpoint = call.address.endpoints[call.endpoint - 1];
        const bool connected = call.said != 0;
        call.said = 0;
        call.heard = 0;
        // Once it was connected, another way to it leads to the same.
        if (connected) call.endpoint = call.address.endpoints.size();
        reach(rank, call, "connecting to " + endpoint.text() + ": " + error_text(error));
        return call.socket ? Progress::moved : Progress::ended;
    }
    if (call.heard == call.answer.size()) return conclude(rank, call);
    return any ? Progress::moved : Progress::waits;
}

TcpMeeting::Progress TcpMeeting::conclude(int rank, Call& call) {
    Word word{};
    std::memcpy(&word, call.answer.data(), sizeof word);
    if (word == Word::welcome) {
        met_[static_cast<std::size_t>(rank)] = true;
        events_.met(rank, std::move(call.socket));
        return Progress::ended;
    }
    if (word == Word::called_you && rank < rank_) {
        call.yields = true;
        call.socket = FileDescriptor();
        return Progress::moved;
    }
    events_.missed(rank,
                   "somebody else answers at " + call.address.endpoints[call.endpoint - 1].text());
    return Progress::ended;
}

bool TcpMeeting::accept_all(const FileDescriptor& listener) {
    bool any = false;
    for (;;) {
        FileDescriptor socket(
            accept4(listener.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!socket) return any;
        any = true;
        set_options(socket.number());
        events_.watch(socket.number());
        if (visitors_.size() >= static_cast<std::size_t>(size_) + most_strangers) {
            visitors_.pop_front();
        }
        visitors_.push_back({std::move(socket), 0, {}, Clock::now()});
    }
}

TcpMeeting::Progress TcpMeeting::advance(Visitor& visitor) {
    const auto count = moved(::recv(visitor.socket.number(), visitor.hello.data() + visitor.heard,
                                    visitor.hello.size() - visitor.heard, 0));
    if (count < 0) return Progress::ended;
    visitor.heard += static_cast<std::size_t>(count);
    if (visitor.heard == visitor.hello.size()) {
        Hello hello;
        std::memcpy(&hello, visitor.hello.data(), sizeof hello);
        receive(visitor, hello);
        return Progress::ended;
    }
    if (Clock::now() > visitor.since + longest_hello) return Progress::ended;
    return count > 0 ? Progress::moved : Progress::waits;
}

void TcpMeeting::receive(Visitor& visitor, const Hello& hello) {
    const bool known = hello.mark == magic && hello.secret == address_.secret &&
                       hello.to == static_cast<std::uint32_t>(rank_) &&
                       hello.from < static_cast<std::uint32_t>(size_) && hello.from != hello.to;
    if (!known) return;
    const int from = static_cast<int>(hello.from);
    const auto call = calls_.find(from);
    const bool mine_counts = met_[hello.from] || (call != calls_.end() && rank_ < from);
    const auto word = mine_counts ? Word::called_you : Word::welcome;
    // A new socket has room for a word.
    if (::send(visitor.socket.number(), &word, sizeof word, MSG_NOSIGNAL) != sizeof word) return;
    if (mine_counts) return;
    if (call != calls_.end()) {
        // step() erases it.
        call->second.yields = false;
        call->second.socket = FileDescriptor();
    }
    met_[hello.from] = true;
    events_.met(from, std::move(visitor.socket));
}

void TcpMeeting::abandon() {
    listeners_.clear();
    calls_.clear();
    visitors_.clear();
}

}  // namespace mpi_bridge
