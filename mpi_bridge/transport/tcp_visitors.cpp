// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp_visitors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/socket.h>

namespace mpi_bridge {

void TcpVisitors::admit(FileDescriptor socket) {
    if (strangers_.size() >= most_strangers) strangers_.pop_front();
    events_.watch(socket.number());
    Visitor& visitor = strangers_.emplace_back();
    visitor.socket = std::move(socket);
    visitor.until = Clock::now() + longest_stranger;
}

bool TcpVisitors::step() {
    // Candidates last, so that one which a stranger becomes is heard at once.
    const bool any = step(strangers_, sizeof(TcpHandshake::Hello));
    return step(candidates_, sizeof(TcpHandshake::Response)) || any;
}

bool TcpVisitors::step(std::list<Visitor>& visitors, std::size_t expected) {
    bool any = false;
    for (auto visitor = visitors.begin(); visitor != visitors.end();) {
        const auto progress = advance(*visitor, expected);
        any = any || progress != Progress::waits;
        const auto next = std::next(visitor);
        if (progress == Progress::ended) {
            visitors.erase(visitor);
        } else if (progress == Progress::became_candidate) {
            make_room_for(visitor->handshake->caller());
            candidates_.splice(candidates_.end(), visitors, visitor);
        }
        visitor = next;
    }
    return any;
}

TcpVisitors::Progress TcpVisitors::advance(Visitor& visitor, std::size_t expected) {
    // One byte more than expected, which no rank sends: this visitor does not keep to the order.
    const auto count = ::recv(visitor.socket.number(), visitor.buffer.data() + visitor.heard,
                              expected + 1 - visitor.heard, MSG_DONTWAIT);
    if (count == 0) return Progress::ended;
    if (count < 0 && errno != EAGAIN && errno != EINTR) return Progress::ended;
    if (count > 0) visitor.heard += static_cast<std::size_t>(count);
    if (visitor.heard > expected) return Progress::ended;
    if (visitor.heard == expected) {
        return visitor.handshake ? take_response(visitor) : take_hello(visitor);
    }
    if (Clock::now() >= visitor.until) return Progress::ended;
    return count > 0 ? Progress::moved : Progress::waits;
}

TcpVisitors::Progress TcpVisitors::take_hello(Visitor& visitor) {
    TcpHandshake::Hello hello;
    std::memcpy(&hello, visitor.buffer.data(), sizeof hello);
    const auto own = static_cast<std::uint32_t>(rank_);
    if (hello.mark != TcpHandshake::Hello::magic || hello.callee != own || hello.caller == own ||
        hello.caller >= static_cast<std::uint32_t>(size_)) {
        return Progress::ended;
    }
    auto handshake = TcpHandshake::answer(secret_, hello);
    if (!handshake) return Progress::ended;
    // Strangers get the challenge as well, so that a rank with the wrong secret finds out. A new
    // socket has room for it.
    const auto challenge = handshake->challenge();
    const auto sent = ::send(visitor.socket.number(), &challenge, sizeof challenge, MSG_NOSIGNAL);
    if (sent != sizeof challenge || !handshake->is_genuine(hello)) return Progress::ended;
    visitor.handshake = *handshake;
    visitor.heard = 0;
    visitor.until = Clock::now() + longest_candidate;
    return Progress::became_candidate;
}

TcpVisitors::Progress TcpVisitors::take_response(Visitor& visitor) {
    TcpHandshake::Response response;
    std::memcpy(&response, visitor.buffer.data(), sizeof response);
    if (visitor.handshake->accepts(response)) {
        events_.proven(std::move(visitor.socket), *visitor.handshake);
    }
    return Progress::ended;
}

void TcpVisitors::make_room_for(int rank) {
    const auto of_rank = [rank](const Visitor& visitor) {
        return visitor.handshake->caller() == rank;
    };
    const auto count = std::count_if(candidates_.begin(), candidates_.end(), of_rank);
    if (static_cast<std::size_t>(count) < most_candidates_of_a_rank) return;
    candidates_.erase(std::find_if(candidates_.begin(), candidates_.end(), of_rank));
}

void TcpVisitors::drop_a_stranger() {
    if (!strangers_.empty()) strangers_.pop_front();
}

Clock::time_point TcpVisitors::next_end() const {
    auto next = Clock::time_point::max();
    if (!strangers_.empty()) next = std::min(next, strangers_.front().until);
    if (!candidates_.empty()) next = std::min(next, candidates_.front().until);
    return next;
}

void TcpVisitors::clear() {
    strangers_.clear();
    candidates_.clear();
}

}  // namespace mpi_bridge
