// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/failure.hpp"
#include "core/sha256.hpp"
#include "transport/tcp/address.hpp"
#include "transport/wire_version.hpp"

namespace mpi_bridge {

// How two ranks prove to each other that they belong to the same job before either sends any data.
// The secret is the one that the callee published; it is never sent over the connection. Each side
// adds a fresh nonce, so that a recording of an earlier handshake proves nothing. Each proof is for
// one direction only, so that a proof which is sent back proves nothing either.
//
//   caller → callee   Hello      who calls whom for which link (as both ends' numbers in
//                                TcpLinks), the caller's nonce, and a first proof
//   callee → caller   Challenge  the callee's nonce and proof
//   caller → callee   Response   the caller's proof
//   callee → caller   Verdict    which of the connections between the two counts
//
// The proof in the hello can be replayed, because it is made without the callee's nonce. It only
// decides which caller is served first, and the callee lets each hello count once.
class TcpHandshake {
  public:
    using Nonce = std::array<std::byte, 32>;
    using Proof = Sha256::Digest;

    struct Hello {
        static constexpr std::uint64_t magic = 0x6d706962'74637000 | wire_version;

        std::uint64_t mark = magic;
        std::uint32_t caller = 0;
        std::uint32_t callee = 0;
        Nonce nonce{};
        Proof proof{};
    };
    struct Challenge {
        Nonce nonce{};
        Proof proof{};
    };
    struct Response {
        Proof proof{};
    };
    enum class Word : std::uint32_t {
        welcome = 1,     // this connection counts
        called_you = 2,  // the callee's own call counts
        met_before = 3,  // the callee takes the two ranks for connected already
    };
    struct Verdict {
        Proof proof{};  // of the word
    };

    // Starts a handshake as the caller, with a fresh nonce.
    [[nodiscard]] static Outcome<TcpHandshake> call(const TcpSecret& secret, int caller,
                                                    int callee);
    [[nodiscard]] Hello hello() const;

    // Starts the answer to a hello, with a fresh nonce.
    [[nodiscard]] static Outcome<TcpHandshake> answer(const TcpSecret& secret, const Hello& hello);
    // Whether the caller knows the secret, or has recorded the hello of a rank that does.
    [[nodiscard]] bool is_genuine(const Hello& hello) const;
    [[nodiscard]] Challenge challenge() const;

    // Takes the callee's nonce. False when the callee does not know the secret.
    [[nodiscard]] bool accepts(const Challenge& challenge);
    [[nodiscard]] Response response() const;

    // Whether the caller knows the secret.
    [[nodiscard]] bool accepts(const Response& response) const;
    [[nodiscard]] Verdict verdict(Word word) const;

    // Returns nullopt if this verdict is not the callee's.
    [[nodiscard]] std::optional<Word> word_of(const Verdict& verdict) const;

    [[nodiscard]] int caller() const { return static_cast<int>(caller_); }

  private:
    enum class Purpose : std::uint32_t { hello, challenge, response, verdict };

    TcpHandshake(const TcpSecret& secret, std::uint32_t caller, std::uint32_t callee)
        : secret_(secret), caller_(caller), callee_(callee) {}
    [[nodiscard]] Proof prove(Purpose purpose, std::uint32_t detail = 0) const;

    TcpSecret secret_;
    std::uint32_t caller_;
    std::uint32_t callee_;
    Nonce callers_{};
    Nonce callees_{};
};

}  // namespace mpi_bridge
