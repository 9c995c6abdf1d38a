// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "mesh.hpp"
#include "transport/tcp/handshake.hpp"

namespace {

using mpi_bridge::TcpHandshake;
using mpi_bridge::TcpSecret;
using mpi_bridge_test::must;
using Word = TcpHandshake::Word;

constexpr TcpSecret secret{std::byte{1}, std::byte{2}};
constexpr TcpSecret other_secret{std::byte{1}, std::byte{3}};

struct Sides {
    TcpHandshake caller;
    TcpHandshake callee;
};

// A caller and a callee after the hello.
Sides introduced(const TcpSecret& callers, const TcpSecret& callees) {
    auto caller = must(TcpHandshake::call(callers, 3, 5));
    auto callee = must(TcpHandshake::answer(callees, caller.hello()));
    return {caller, callee};
}

TEST(TcpHandshake, SidesThatKnowTheSecretAgree) {
    auto [caller, callee] = introduced(secret, secret);
    EXPECT_EQ(callee.caller(), 3);
    EXPECT_TRUE(callee.is_genuine(caller.hello()));
    EXPECT_TRUE(caller.accepts(callee.challenge()));
    EXPECT_TRUE(callee.accepts(caller.response()));
    for (const Word word : {Word::welcome, Word::called_you, Word::met_before})
        EXPECT_EQ(caller.word_of(callee.verdict(word)), word);
}

TEST(TcpHandshake, AWrongSecretIsFoundOutByEitherSide) {
    auto [caller, callee] = introduced(secret, other_secret);
    EXPECT_FALSE(callee.is_genuine(caller.hello()));
    EXPECT_FALSE(caller.accepts(callee.challenge()));
    EXPECT_FALSE(callee.accepts(caller.response()));
    EXPECT_EQ(caller.word_of(callee.verdict(Word::welcome)), std::nullopt);
}

// Breaks when the secret, or a part of it, is in what is sent.
TEST(TcpHandshake, NothingThatIsSentHoldsTheSecret) {
    TcpSecret long_secret{};
    for (std::size_t index = 0; index < long_secret.size(); ++index)
        long_secret[index] = static_cast<std::byte>(0xa0 + index);
    auto caller = must(TcpHandshake::call(long_secret, 3, 5));
    const auto hello = caller.hello();
    const auto callee = must(TcpHandshake::answer(long_secret, hello));
    const auto challenge = callee.challenge();
    const auto expect_free_of_it = [&](const auto& message) {
        const auto sent = std::as_bytes(std::span(&message, 1));
        const auto part = std::span(long_secret).first(4);
        EXPECT_EQ(std::search(sent.begin(), sent.end(), part.begin(), part.end()), sent.end());
    };
    expect_free_of_it(hello);
    expect_free_of_it(challenge);
    ASSERT_TRUE(caller.accepts(challenge));
    expect_free_of_it(caller.response());
    expect_free_of_it(callee.verdict(Word::welcome));
}

// Breaks when a side takes a proof of another handshake, of the other direction, or of other ranks.
TEST(TcpHandshake, AProofServesOnce) {
    auto [caller, callee] = introduced(secret, secret);
    ASSERT_TRUE(caller.accepts(callee.challenge()));
    const auto recorded = caller.response();

    const auto again = must(TcpHandshake::answer(secret, caller.hello()));
    EXPECT_FALSE(again.accepts(recorded));
    auto next = must(TcpHandshake::call(secret, 3, 5));
    EXPECT_FALSE(next.accepts(callee.challenge()));
    EXPECT_FALSE(callee.accepts(TcpHandshake::Response{callee.challenge().proof}));
    EXPECT_FALSE(callee.accepts(TcpHandshake::Response{caller.hello().proof}));

    auto hello = caller.hello();
    hello.caller = 4;
    const auto other = must(TcpHandshake::answer(secret, hello));
    EXPECT_FALSE(other.is_genuine(hello));
}

}  // namespace
