// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/pending_handshakes.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace mpi_bridge {

void TcpPendingHandshakes::admit(FileDescriptor socket) {
    if (awaiting_hello_.size() >= most_awaiting_hello) awaiting_hello_.pop_front();
    events_.watch(socket.number());
    Connection& connection = awaiting_hello_.emplace_back();
    connection.socket = std::move(socket);
    connection.until = Clock::now() + longest_hello;
}

bool TcpPendingHandshakes::step() {
    // Responses come last, so that a connection whose hello has just come is read from again at
    // once.
    const bool any = step(awaiting_hello_, sizeof(TcpHandshake::Hello));
    return step(awaiting_response_, sizeof(TcpHandshake::Response)) || any;
}

bool TcpPendingHandshakes::step(std::list<Connection>& connections, std::size_t expected) {
    bool any = false;
    for (auto connection = connections.begin(); connection != connections.end();) {
        const auto progress = advance(*connection, expected);
        any = any || progress != Progress::waits;
        const auto next = std::next(connection);
        if (progress == Progress::ended) {
            connections.erase(connection);
        } else if (progress == Progress::got_hello) {
            make_room_for(connection->handshake->caller());
            awaiting_response_.splice(awaiting_response_.end(), connections, connection);
        }
        connection = next;
    }
    return any;
}

TcpPendingHandshakes::Progress TcpPendingHandshakes::advance(Connection& connection,
                                                             std::size_t expected) {
    // Asks for one byte more than expected. No rank sends it, so a caller that does breaks the
    // protocol.
    const auto count =
        ::recv(connection.socket.number(), connection.buffer.data() + connection.heard,
               expected + 1 - connection.heard, MSG_DONTWAIT);
    if (count == 0) return Progress::ended;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return Progress::ended;
    if (count > 0) connection.heard += static_cast<std::size_t>(count);
    if (connection.heard > expected) return Progress::ended;
    if (connection.heard == expected) {
        return connection.handshake ? take_response(connection) : take_hello(connection);
    }
    if (Clock::now() >= connection.until) return Progress::ended;
    return count > 0 ? Progress::moved : Progress::waits;
}

// Whether the hello is from another rank to this one, and both mean links of one kind.
bool TcpPendingHandshakes::names_a_link(const TcpHandshake::Hello& hello) const {
    if (hello.caller >= static_cast<std::uint32_t>(links_.count())) return false;
    const auto caller = static_cast<int>(hello.caller);
    const int own_end = links_.to(rank_, links_.kind(caller));
    return caller != own_end && hello.callee == static_cast<std::uint32_t>(own_end);
}

TcpPendingHandshakes::Progress TcpPendingHandshakes::take_hello(Connection& connection) {
    TcpHandshake::Hello hello;
    std::memcpy(&hello, connection.buffer.data(), sizeof hello);
    if (hello.mark != TcpHandshake::Hello::magic || !names_a_link(hello)) return Progress::ended;
    auto handshake = TcpHandshake::answer(secret_, hello);
    if (!handshake) return Progress::ended;
    // Whoever has sent a hello gets the challenge, genuine or not, so that a rank with the wrong
    // secret notices. A new socket has room for it.
    const auto challenge = handshake->challenge();
    const auto sent =
        ::send(connection.socket.number(), &challenge, sizeof challenge, MSG_NOSIGNAL);
    if (sent != sizeof challenge || !handshake->is_genuine(hello) || !is_new(hello))
        return Progress::ended;
    connection.handshake = *handshake;
    connection.heard = 0;
    connection.until = Clock::now() + longest_response;
    return Progress::got_hello;
}

TcpPendingHandshakes::Progress TcpPendingHandshakes::take_response(Connection& connection) {
    TcpHandshake::Response response;
    std::memcpy(&response, connection.buffer.data(), sizeof response);
    if (connection.handshake->accepts(response)) {
        events_.proven(std::move(connection.socket), *connection.handshake);
    }
    return Progress::ended;
}

bool TcpPendingHandshakes::is_new(const TcpHandshake::Hello& hello) {
    auto& known = hellos_[hello.caller];
    if (std::find(known.begin(), known.end(), hello.nonce) != known.end()) return false;
    if (known.size() == most_hellos_of_a_link) known.pop_front();
    known.push_back(hello.nonce);
    return true;
}

void TcpPendingHandshakes::make_room_for(int link) {
    const auto of_link = [link](const Connection& connection) {
        return connection.handshake->caller() == link;
    };
    const auto count = std::count_if(awaiting_response_.begin(), awaiting_response_.end(), of_link);
    if (static_cast<std::size_t>(count) < most_awaiting_response_of_a_link) return;
    awaiting_response_.erase(
        std::find_if(awaiting_response_.begin(), awaiting_response_.end(), of_link));
}

void TcpPendingHandshakes::drop_one_awaiting_hello() {
    if (!awaiting_hello_.empty()) awaiting_hello_.pop_front();
}

Clock::time_point TcpPendingHandshakes::next_end() const {
    auto next = Clock::time_point::max();
    if (!awaiting_hello_.empty()) next = std::min(next, awaiting_hello_.front().until);
    if (!awaiting_response_.empty()) next = std::min(next, awaiting_response_.front().until);
    return next;
}

void TcpPendingHandshakes::clear() {
    awaiting_hello_.clear();
    awaiting_response_.clear();
}

}  // namespace mpi_bridge
