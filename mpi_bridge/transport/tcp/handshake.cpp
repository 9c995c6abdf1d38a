// SPDX-License-Identifier: Apache-2.0
#include "transport/tcp/handshake.hpp"

#include <span>
#include <utility>

#include "core/random_bytes.hpp"

namespace mpi_bridge {
namespace {

// What a proof covers. It has no padding, whose bytes would be undefined.
struct Statement {
    std::array<char, 16> label{'m', 'p', 'i', '_', 'b', 'r', 'i', 'd', 'g', 'e'};
    std::uint32_t purpose = 0;
    std::uint32_t detail = 0;
    std::uint32_t caller = 0;
    std::uint32_t callee = 0;
    TcpHandshake::Nonce callers{};
    TcpHandshake::Nonce callees{};
};
static_assert(sizeof(Statement) == 16 + 4 * sizeof(std::uint32_t) + 2 * std::size_t{32});

}  // namespace

TcpHandshake::Proof TcpHandshake::prove(Purpose purpose, std::uint32_t detail) const {
    Statement statement;
    statement.purpose = static_cast<std::uint32_t>(purpose);
    statement.detail = detail;
    statement.caller = caller_;
    statement.callee = callee_;
    statement.callers = callers_;
    if (purpose != Purpose::hello) statement.callees = callees_;
    return hmac_sha256(secret_, std::as_bytes(std::span(&statement, 1)));
}

Outcome<TcpHandshake> TcpHandshake::call(const TcpSecret& secret, int caller, int callee) {
    TcpHandshake handshake(secret, static_cast<std::uint32_t>(caller),
                           static_cast<std::uint32_t>(callee));
    TRY(fill_random(handshake.callers_));
    return handshake;
}

TcpHandshake::Hello TcpHandshake::hello() const {
    return {Hello::magic, caller_, callee_, callers_, prove(Purpose::hello)};
}

Outcome<TcpHandshake> TcpHandshake::answer(const TcpSecret& secret, const Hello& hello) {
    TcpHandshake handshake(secret, hello.caller, hello.callee);
    handshake.callers_ = hello.nonce;
    TRY(fill_random(handshake.callees_));
    return handshake;
}

bool TcpHandshake::is_genuine(const Hello& hello) const {
    return equal_in_constant_time(hello.proof, prove(Purpose::hello));
}

TcpHandshake::Challenge TcpHandshake::challenge() const {
    return {callees_, prove(Purpose::challenge)};
}

bool TcpHandshake::accepts(const Challenge& challenge) {
    callees_ = challenge.nonce;
    return equal_in_constant_time(challenge.proof, prove(Purpose::challenge));
}

TcpHandshake::Response TcpHandshake::response() const {
    return {prove(Purpose::response)};
}

bool TcpHandshake::accepts(const Response& response) const {
    return equal_in_constant_time(response.proof, prove(Purpose::response));
}

TcpHandshake::Verdict TcpHandshake::verdict(Word word) const {
    return {prove(Purpose::verdict, static_cast<std::uint32_t>(word))};
}

std::optional<TcpHandshake::Word> TcpHandshake::word_of(const Verdict& verdict) const {
    for (const Word word : {Word::welcome, Word::called_you, Word::met_before}) {
        if (equal_in_constant_time(verdict.proof, this->verdict(word).proof)) return word;
    }
    return std::nullopt;
}

}  // namespace mpi_bridge
